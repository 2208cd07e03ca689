"""Aliases: names in a configuration file that stand for options, and are given to one option of a command.

`[aliases.NAME]` is a table of options. Where NAME is given, they hold before the environment and the rest of the file,
and flags hold before them. An alias is not looked up in another one, so that there can be no loops. It may know typer,
and no program's options.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from common.programs.configuration import configured_by
from common.programs.configuration_file import checked_value, options_of
from common.protocol.errors import MisuseError


def alias_applied(context: typer.Context, option: str, given: str) -> str:
    """`given`, or where that is an alias what it says of `option`, empty if it says nothing; the command then has its
    other options. To be called before those are read.

    Raises MisuseError for a value that the command does not take.
    """
    configured = configured_by(context)
    alias: Mapping[str, Any] | None = configured.aliases.get(given)
    if alias is None or context.resilient_parsing:
        return given
    own, defaults = options_of(context.command), dict(context.default_map or {})
    for name in alias.keys() & own.keys() - {option}:
        where = f"{configured.path}: [aliases.{given}] {name}"
        defaults[own[name].name] = checked_value(context, configured, own[name], where, alias[name])
        own[name].envvar = None
    context.default_map = defaults
    return str(alias.get(option, ""))


def aliases_applied(context: typer.Context, option: str, given: Sequence[str]) -> list[str]:
    """The same for an option that may be repeated. Raises MisuseError for an alias beside other names: it may stand for
    another server."""
    aliases = [name for name in given if name in configured_by(context).aliases]
    if aliases and len(given) > 1:
        raise MisuseError(f"'{aliases[0]}' is an alias, which may name a server of its own; give it alone")
    return [name for name in (alias_applied(context, option, each) for each in given) if name]
