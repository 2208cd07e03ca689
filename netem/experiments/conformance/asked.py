"""Prompts that ask for JSON, with the schemas of what they ask for. Pure: a question is a function of its number.

The demo target is trained on such prompts, drawn with other seeds. It may not know how answers are made or checked.
"""

from random import Random
from typing import Any

from netem.experiments.conformance.schemas import Schema
from training.demo.talks.records import ASKS, FORMS, SUBJECTS, draw_rows, told


def make_question(number: int) -> tuple[str, Schema]:
    """Records told in sentences, to be rewritten as a list of objects, and the schema of that list. Its length
    is fixed, because a list that goes on beyond the records repeats itself, which any draft model foresees."""
    rng = Random(f"conformance {number}")
    kind = rng.choice(list(SUBJECTS))
    rows = draw_rows(rng, kind)
    _, ways = FORMS["JSON"]
    prompt = rng.choice(ASKS).format(form=rng.choice(ways), order="", text=told(rng, kind, rows))
    properties: dict[str, Any] = {
        column: {"type": "integer"} if isinstance(value, int) else {"type": "string", "maxLength": 40}
        for column, value in rows[0].items()
    }
    record = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return prompt, {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "array",
        "items": record,
        "minItems": len(rows),
        "maxItems": len(rows),
    }
