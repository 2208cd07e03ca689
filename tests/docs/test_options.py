"""The pages know the options of all programs: each is on some page, and commands on pages have no others."""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer

from tests.docs.test_names import PAGES, by_name
from tests.test_help import PROGRAMS

COMMON = {"--help", "--version", "--show-completion"}
"""Which every program has, and which say themselves what they are for."""

_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*\w")
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(?:\S*/)?outrider(?:d|-lab|-train)? ")


@cache
def text_of_pages() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


@cache
def flags_on_pages() -> frozenset[str]:
    return frozenset(_FLAG.findall(text_of_pages()))


def commands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from commands(each)


@cache
def spellings(program: str) -> frozenset[tuple[str, ...]]:
    """Of each option, its long flags: two for a switch."""
    app = typer.main.get_command(importlib.import_module(f"{program}.cli").app)
    options = (option for command in commands(app) for option in command.params if option.param_type_name == "option")
    return frozenset(
        tuple(flag for flag in (*option.opts, *option.secondary_opts) if flag.startswith("--")) for option in options
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_option_is_on_a_page(program: str) -> None:
    assert len(spellings(program)) > 10
    unknown = {flags for flags in spellings(program) if flags_on_pages().isdisjoint(flags) and COMMON.isdisjoint(flags)}
    assert sorted(unknown) == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_commands_on_pages_have_no_other_options(page: Any) -> None:
    known = COMMON.union(*(flags for program in PROGRAMS for flags in spellings(program)))
    lines = "\n".join(_BLOCK.findall(page.read_text(encoding="utf-8"))).replace("\\\n", " ").splitlines()
    used = {flag for line in lines if _COMMAND.match(line) for flag in _FLAG.findall(line.partition("  #")[0])}
    assert sorted(used - known) == []
