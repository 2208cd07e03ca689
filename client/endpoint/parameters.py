"""Readers of JSON values: each returns what a parameter says, or raises a fault that names it. Pure.

It may know the marks of private text, and not which parameters there are.
"""

from collections.abc import Callable, Iterator
from typing import Any

from client.endpoint.faults import wrong
from client.private.spans import has_marks

_SEEDS = 1 << 64

MOST_WHOLE = (1 << 31) - 1
"""The limit of whole numbers that have no lower one."""

Reader = Callable[[str, Any], Any]
"""Reads a parameter's JSON value. Raises FaultError if it is not of the parameter's type."""


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(name, f"'{name}' must be a string")
    try:
        value.encode()
    except UnicodeError:
        raise wrong(name, f"'{name}' is not valid text: it has half a surrogate pair") from None
    return value


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong(name, f"'{name}' must be true or false")
    return value


def whole(least: int, most: int = MOST_WHOLE) -> Reader:
    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise wrong(name, f"'{name}' must be a whole number, at least {least} and at most {most}")
        return value

    return read


def number(least: float, most: float) -> Reader:
    def read(name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and least <= value <= most):
            raise wrong(name, f"'{name}' must be a number from {least:g} to {most:g}")
        return float(value)

    return read


def seed(name: str, value: Any) -> int:
    """OpenAI's seeds may be negative."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(_SEEDS // 2) <= value < _SEEDS:
        raise wrong(name, f"'{name}' must be a whole number of 64 bits")
    return value % _SEEDS


def strings_in(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        match each:
            case str():
                yield each
            case dict():
                waiting += [*each.keys(), *each.values()]
            case list() | tuple():
                waiting += each


def check_public(name: str, value: Any) -> None:
    """Raises FaultError where a private span may stand in what goes to the server with every request."""
    if any(map(has_marks, strings_in(value))):
        raise wrong(name, f"'{name}' goes to the server, so it cannot hold private text")


def stop(name: str, value: Any) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list):
        raise wrong(name, f"'{name}' must be a string or a list of strings")
    check_public(name, stops)
    return tuple(text(name, each) for each in stops)


def json_object(name: str, value: Any) -> dict[str, Any]:
    """An object whose strings are all text."""
    if not isinstance(value, dict):
        raise wrong(name, f"'{name}' must be an object")
    try:
        _check_strings(name, value)
    except RecursionError:
        raise wrong(name, f"'{name}' is nested too deeply") from None
    return value


def _check_strings(name: str, value: Any) -> None:
    if isinstance(value, str):
        text(name, value)
    elif isinstance(value, dict):
        for key, each in value.items():
            text(name, key)
            _check_strings(name, each)
    elif isinstance(value, list):
        for each in value:
            _check_strings(name, each)
