"""Whether an answer fits its schema, by a library that has nothing to do with the one that constrains answers.

Pure. It may not know who answered, or how.
"""

import json
from datetime import datetime
from functools import cache
from typing import Any

from client.answer import Answer
from client.text import answer_text
from common.models.tokenizer import Tokenizer
from common.protocol.messages import FinishReason
from netem.experiments.conformance.schemas import Schema


def verdict(answer: Answer, schema: Schema, tokenizer: Tokenizer) -> str:
    """`valid`, `invalid`, or `cut`: an answer that the limit of tokens has cut cannot be valid."""
    if answer.finish_reason != FinishReason.END:
        return "cut"
    try:
        # The last token is the end token: no answer of this experiment ends at a string.
        value = json.loads(answer_text(tokenizer, answer.tokens[-1:], answer.tokens))
    except ValueError:
        return "invalid"
    return "valid" if fits(value, schema) else "invalid"


def fits(value: Any, schema: Schema) -> bool:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

    return bool(Draft202012Validator(schema, format_checker=_formats()).is_valid(value))


@cache
def _formats() -> Any:
    """Those of jsonschema, and times, which it only knows with a package of its own: by Python, as RFC 3339."""
    from jsonschema import Draft202012Validator, FormatChecker

    checker = FormatChecker()
    checker.checkers = dict(Draft202012Validator.FORMAT_CHECKER.checkers)
    checker.checks("date-time", ValueError)(lambda text: not isinstance(text, str) or _is_moment(text))
    checker.checks("time", ValueError)(lambda text: not isinstance(text, str) or _is_moment(f"2000-01-01T{text}"))
    return checker


def _is_moment(text: str) -> bool:
    """With an offset; letters in any case, and a leap second. Raises ValueError for what is no date and time."""
    return datetime.fromisoformat(text.upper().replace(":60", ":59", 1)).tzinfo is not None
