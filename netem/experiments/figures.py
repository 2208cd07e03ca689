"""Figures in documents that come from kept results: each is a link that says which result file, which key, what format.

    A tree commits [5.05][moa] tokens a pass.

    [moa]: benchmarks/single-device/results.json ".2f /results/drafts/moa, N=0/accept_length/value"

The title is a format of Python and a value: a path of keys, or several with ` : ` between them, the first divided by
the others. Where a path meets a list, a step is a position, or chooses objects by their fields (`=`, `!=`, `<`, `>`):
`/rows/rule=greedy&chain=4`; `~1` is a `/` within a step. A path leads to one value; after `least`, `most`, `sum`,
`median` or `count` it may lead to several: `*` is every key or object, `a|b` either of two keys or values of a field.
A title that begins with `holds` compares such values or numbers, as in `holds /a > /b > 1`, and its figure is `yes`
or `no`.

May know Markdown and JSON. It may not know any experiment or document.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any

from common.protocol.errors import MisuseError

_DEFINITION = re.compile(r'^\[(?P<label>[^\[\]]+)\]: (?P<file>\S+\.json) "(?P<recipe>[^"]+)"$', re.MULTILINE)
_FIGURE = re.compile(r"\[(?P<text>[^\[\]]*)\]\[(?P<label>[^\[\]]+)\]")
_COMPARED = re.compile(r" ([<>]) ")
_CONDITION = re.compile(r"(?P<field>[^=<>!]+)(?P<sign>!=|[=<>])(?P<value>.*)")
_HOLDS, _OVER, _EVERY, _OR = "holds ", " : ", "*", "|"
_OF_SEVERAL: dict[str, Callable[[list[Any]], Any]] = {
    "least": min,
    "most": max,
    "sum": sum,
    "median": median,
    "count": len,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as a document has it, and as the results have it."""

    label: str
    text: str
    expected: str


def figures(document: str, folder: Path) -> list[Figure]:
    """All figures of a document that lies in `folder`, in its order.

    Raises MisuseError for a result file or key that does not exist, and for a definition that no figure uses.
    """
    recipes = {found["label"]: (found["file"], found["recipe"]) for found in _DEFINITION.finditer(document)}
    found = [
        Figure(match["label"], match["text"], _evaluate(match["label"], *recipes[match["label"]], folder))
        for match in _FIGURE.finditer(document)
        if match["label"] in recipes
    ]
    unused = set(recipes) - {figure.label for figure in found}
    if unused:
        raise MisuseError(f"no figure uses the definition [{min(unused)}]: remove it, or write [figure][{min(unused)}]")
    return found


def refreshed(document: str, folder: Path) -> str:
    """The document with every figure as the results have it. Raises as `figures` does."""
    expected = {figure.label: figure.expected for figure in figures(document, folder)}

    def replace(match: re.Match[str]) -> str:
        label = match["label"]
        return f"[{expected[label]}][{label}]" if label in expected else match[0]

    return _FIGURE.sub(replace, document)


def _evaluate(label: str, file: str, recipe: str, folder: Path) -> str:
    try:
        results = json.loads((folder / file).read_text(encoding="utf-8"))
        if recipe.startswith(_HOLDS):
            return "yes" if _holds(recipe.removeprefix(_HOLDS), results) else "no"
        form, _, value = recipe.partition(" ")
        return format(_value(value, results), form)
    except (OSError, ValueError, LookupError, TypeError, ZeroDivisionError) as error:
        raise MisuseError(f'the figure [{label}] cannot be read from {file} by "{recipe}": {error!r}') from error


def _holds(comparison: str, results: Any) -> bool:
    first, *rest = _COMPARED.split(comparison)
    values = [_value(term, results) for term in (first, *rest[1::2])]
    if not rest:
        raise ValueError("nothing is compared")
    return all(
        left < right if sign == "<" else left > right
        for sign, (left, right) in zip(rest[::2], pairwise(values), strict=True)
    )


def _value(term: str, results: Any) -> Any:
    return reduce(truediv, (_term(each.strip(), results) for each in term.split(_OVER)))


def _term(term: str, results: Any) -> Any:
    if term.startswith("/"):
        found = _found(term, results)
        if len(found) != 1:
            raise LookupError(f"{len(found)} values are at {term}, and one is needed")
        return found[0]
    name, _, path = term.partition(" ")
    return _OF_SEVERAL[name](_found(path, results)) if name in _OF_SEVERAL else float(term)


def _found(path: str, results: Any) -> list[Any]:
    found = [results]
    for step in _steps(path):
        found = [value for each in found for value in _below(each, step)]
    return found


def _steps(path: str) -> Iterator[str]:
    return (step.replace("~1", "/") for step in path.removeprefix("/").split("/"))


def _below(value: Any, step: str) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values()) if step == _EVERY else [value[key] for key in step.split(_OR)]
    if not isinstance(value, list):
        raise LookupError(f"nothing is below {value!r}")
    if step == _EVERY:
        return value
    return [value[int(step)]] if step.isdecimal() else _chosen(value, step)


def _chosen(objects: list[Any], step: str) -> list[Any]:
    """Those whose fields are as the step says."""
    chosen = objects
    for condition in step.split("&"):
        parts = _CONDITION.fullmatch(condition)
        if not parts or (objects and not any(parts["field"] in each for each in objects)):
            raise LookupError(f"no object has the field of {condition}")
        chosen = [each for each in chosen if _meets(each.get(parts["field"]), parts["sign"], parts["value"])]
    return chosen


def _meets(value: Any, sign: str, wanted: str) -> bool:
    if sign in "<>":
        return value is not None and (value < float(wanted) if sign == "<" else value > float(wanted))
    return (str(value) in wanted.split(_OR)) == (sign == "=")
