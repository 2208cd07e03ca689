"""What a request says of the form of its answer, as a constraint: OpenAI's `response_format`, and vLLM's
`structured_outputs` with the older `guided_` parameters. Pure.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from client.endpoint import parameters
from client.endpoint.faults import FaultError, wrong
from common.protocol.constraint import Grammar
from common.protocol.messages import Constraint

_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}

_PLAIN_MARKS = frozenset(" _-,")
"""Marks that stand for themselves in a regular expression, and in a grammar around it."""


def response_format(name: str, value: Any) -> Constraint | None:
    """None for plain text."""
    given = parameters.json_object(name, value)
    match given.get("type"):
        case "text":
            return None
        case "json_object":
            return _schema(name, _ANY_OBJECT)
        case "json_schema":
            described = parameters.json_object(f"{name}.json_schema", given.get("json_schema"))
            return _schema(f"{name}.json_schema.schema", described.get("schema", _ANY_OBJECT))
    raise wrong(f"{name}.type", f"'{name}.type' must be one of: text, json_object, json_schema", "unsupported_value")


def structured_outputs(name: str, value: Any) -> Constraint | None:
    """One of its forms, as vLLM has them."""
    given = {form: each for form, each in parameters.json_object(name, value).items() if each not in (None, False)}
    if not given:
        return None
    form, *more = given
    if more or form not in _FORMS:
        raise wrong(name, f"'{name}' must have one of: {', '.join(_FORMS)}")
    return _FORMS[form](f"{name}.{form}", given[form])


def _schema(name: str, value: Any) -> Constraint:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise wrong(name, f"'{name}' is not valid JSON") from None
    return Constraint(Grammar.JSON_SCHEMA, json.dumps(parameters.json_object(name, value)))


def _choice(name: str, value: Any) -> Constraint:
    if not isinstance(value, list) or not value:
        raise wrong(name, f"'{name}' must be a list of strings")
    options = ("".join(map(_in_regex, parameters.text(name, option))) for option in value)
    return Constraint(Grammar.REGEX, "|".join(options))


def _in_regex(character: str) -> str:
    """Plainly where that can be, because the length of a constraint is bounded."""
    is_plain = character.isalnum() or character in _PLAIN_MARKS
    return character if is_plain else f"\\x{{{ord(character):x}}}"


_FORMS: Mapping[str, Callable[[str, Any], Constraint]] = {
    "json": _schema,
    "json_object": lambda name, value: _schema(name, _ANY_OBJECT),
    "regex": lambda name, value: Constraint(Grammar.REGEX, parameters.text(name, value)),
    "grammar": lambda name, value: Constraint(Grammar.LARK, parameters.text(name, value)),
    "choice": _choice,
}


def _public(read: parameters.Reader) -> parameters.Reader:
    def checked(name: str, value: Any) -> Constraint | None:
        constraint: Constraint | None = read(name, value)
        parameters.check_public(name, [value, "" if constraint is None else constraint.text])
        return constraint

    return checked


READERS: Mapping[str, parameters.Reader] = {
    "response_format": _public(response_format),
    "structured_outputs": _public(structured_outputs),
    **{f"guided_{form}": _public(_FORMS[form]) for form in ("json", "regex", "grammar", "choice")},
}


def the_constraint(fields: Mapping[str, Any]) -> tuple[str, Constraint] | None:
    """The constraint among the parameters that were read, with the name of its own; None without any. Raises FaultError
    where two contradict each other."""
    given = [(name, fields[name]) for name in READERS if fields.get(name) is not None]
    if len(given) > 1:
        (first, _), (second, _), *_ = given
        says = f"'{first}' and '{second}' say both what the answer must look like; give one"
        raise FaultError(replace(wrong(second, says).fault, also=first))
    return given[0] if given else None
