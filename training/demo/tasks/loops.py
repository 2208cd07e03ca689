"""The code of families as templates: fold, collect, count, stop at the first, and straight lines.

What may live here: shapes of function bodies. It may not know any family, any wording or where slots come from.

In every template `{item}` is the element, `{name}` the parameter, `{keep:{item}}` a drawn condition on the element
and `{change:{item}}` a drawn change of it; `{{` is a brace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TEST = "{keep:{item}}"
CHANGED = "{change:{item}}"
ALWAYS = ""


@dataclass(frozen=True)
class Body:
    """A function body that gives a `returns`: `step` stands inside the loop, `start` before it and `end` after it."""

    returns: str
    start: tuple[str, ...]
    step: tuple[str, ...] = ()
    end: tuple[str, ...] = ()

    def lines(self, heads: tuple[str, ...], slots: Mapping[str, Any]) -> tuple[str, ...]:
        """The source lines, with `step` inside the loops that `heads` open."""
        inner = self.step
        for head in reversed(heads):
            inner = (head, *indented(inner))
        return tuple(line.format_map(slots) for line in (*self.start, *inner, *self.end))


def indented(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"    {line}" for line in lines)


def guarded(when: str, *lines: str) -> tuple[str, ...]:
    """The lines under `if when:`, or alone where they are to run always."""
    return lines if when == ALWAYS else (f"if {when}:", *indented(lines))


def straight(returns: str, *lines: str) -> Body:
    """Code without a loop."""
    return Body(returns, lines)


def fold(name: str, start: str, step: str, returns: str, when: str = TEST) -> Body:
    """A result called `name` that begins as `start` and takes a `step` for each element."""
    return Body(returns, (f"{name} = {start}",), guarded(when, step), (f"return {name}",))


def collect(item: str, returns: str = "list[{type}]") -> Body:
    """A list with something for every element."""
    return fold("result", "[]", f"result.append({item})", returns, ALWAYS)


def count(when: str) -> Body:
    return fold("count", "0", "count += 1", "int", when)


def running(name: str, start: str, step: str) -> Body:
    """A list of the values of `name` after each element."""
    end = ("return result",)
    return Body("list[int]", (f"{name} = {start}", "result = []"), (step, f"result.append({name})"), end)


def stop(found: str, otherwise: str, returns: str, when: str) -> Body:
    """Return `found` at the first element that passes, and `otherwise` at the end."""
    return Body(returns, (), guarded(when, f"return {found}"), (f"return {otherwise}",))
