"""Random JSON schemas of draft 2020-12 whose values are short. Pure: a schema is a function of its number.

Most keywords that llguidance documents as supported occur: types, alone and in lists, objects (properties, required,
additionalProperties), arrays (items, prefixItems, minItems, maxItems), strings (minLength, maxLength, pattern, format),
numbers (minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf), enum, const, anyOf, allOf, $ref and $defs.
Not oneOf, patternProperties, minProperties and maxProperties. It may not know how answers are made or checked.
"""

from collections.abc import Callable
from random import Random
from typing import Any

Schema = dict[str, Any]

_DEPTH = 2
_KEYS = ("name", "kind", "count", "tags", "is open", "größe", "a/b", 'quoted "key"', "price", "when")
_PATTERNS = ("^[a-f]{2,6}$", "^(ab|cd)+x?$", "^[A-Z][a-z]{1,5}(-[0-9]{1,3})?$", r"^\d{3}-\d{4}$", "^(yes|no)$")
_FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "email")
_VALUES = ("red", "green", "", "two words", 'a "quoted" one', "é", 0, 7, -3, 2.5, True, False, None, [1, "a"], {"a": 1})


def make_schema(number: int) -> Schema:
    """An object or an array, so that there is something to close, of at most three levels."""
    rng = Random(number)
    schema = rng.choice((_object, _object, _object, _array))(rng, _DEPTH)
    if rng.random() < 0.25:
        schema = {"$defs": {"part": _any(rng, 0)}, **_object(rng, 1, {"$ref": "#/$defs/part"})}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _any(rng: Random, depth: int) -> Schema:
    flat = (_string, _string, _integer, _number, _enum, _const, _types)
    deep = (_object, _array, _tuple, _any_of, _all_of)
    return rng.choice(flat if depth <= 0 or rng.random() < 0.5 else deep)(rng, depth - 1)


def _object(rng: Random, depth: int, part: Schema | None = None) -> Schema:
    keys = rng.sample(_KEYS, rng.randint(1, 4))
    properties = {key: _any(rng, depth) for key in keys}
    if part is not None:
        properties[keys[0]] = part
    required = [key for key in keys if key == keys[0] or rng.random() < 0.7]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _array(rng: Random, depth: int) -> Schema:
    least = rng.randint(0, 2)
    return {"type": "array", "items": _any(rng, depth), "minItems": least, "maxItems": least + rng.randint(0, 2)}


def _tuple(rng: Random, depth: int) -> Schema:
    items = [_any(rng, depth) for _ in range(rng.randint(1, 3))]
    return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}


def _string(rng: Random, _: int) -> Schema:
    least = rng.randint(0, 3)
    makes: tuple[Callable[[], Schema], ...] = (
        lambda: {"minLength": least, "maxLength": least + rng.randint(0, 9)},
        lambda: {"pattern": rng.choice(_PATTERNS)},
        lambda: {"format": rng.choice(_FORMATS), "maxLength": 40},
    )
    return {"type": "string", **rng.choice(makes)()}


def _integer(rng: Random, _: int) -> Schema:
    least = rng.randint(-50, 50)
    schema: Schema = {"type": "integer", "minimum": least, "maximum": least + rng.randint(0, 200)}
    if rng.random() < 0.3:
        schema = {"type": "integer", "exclusiveMinimum": least - 1, "exclusiveMaximum": least + 30}
    if rng.random() < 0.2:
        schema["multipleOf"] = rng.choice((2, 3, 5))
        schema |= {"minimum": 0, "maximum": 60} if "minimum" in schema else {}
    return schema


def _number(rng: Random, _: int) -> Schema:
    least = rng.randint(-5, 5)
    return {"type": "number", "minimum": least, "maximum": least + rng.choice((0.5, 2, 10)), "multipleOf": 0.25}


def _enum(rng: Random, _: int) -> Schema:
    return {"enum": rng.sample(_VALUES, rng.randint(1, 4))}


def _const(rng: Random, _: int) -> Schema:
    return {"const": rng.choice(_VALUES)}


def _types(rng: Random, _: int) -> Schema:
    return {"type": rng.sample(("boolean", "null"), rng.randint(1, 2))}


def _any_of(rng: Random, depth: int) -> Schema:
    return {"anyOf": [_any(rng, depth) for _ in range(rng.randint(2, 3))]}


def _all_of(rng: Random, depth: int) -> Schema:
    """Parts that some value fits: bounds of a number, or of a string."""
    if rng.random() < 0.5:
        return {"allOf": [{"type": "integer", "minimum": 0}, {"maximum": rng.randint(5, 99)}]}
    return {"allOf": [{"type": "string", "minLength": 1}, {"maxLength": rng.randint(2, 9)}]}
