"""Sets of options that a configuration file names: aliases, which are given instead of an option's value, and
presets, which are asked for by an option of their own.

`[aliases.NAME]` and `[presets.NAME]` are tables of options. Where NAME is given, they hold before the environment and
the rest of the file, and flags hold before them. A preset may name an alias; an alias names no further set, so that
there can be no loops. It may know typer, and no program's options.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from common.programs.configuration import configured_by
from common.programs.configuration_file import ALIASES, PRESETS, checked_value, options_of, read_toml
from common.programs.nearest import did_you_mean
from common.protocol.errors import MisuseError


def alias_applied(context: typer.Context, option: str, given: str) -> str:
    """`given`, or where that is an alias what it says of `option`, empty if it says nothing; the command then has its
    other options. To be called before those are read.

    Raises MisuseError for a value that the command does not take.
    """
    alias = configured_by(context).aliases.get(given)
    if alias is None or context.resilient_parsing:
        return given
    _hold(context, f"[{ALIASES}.{given}]", {name: value for name, value in alias.items() if name != option})
    return str(alias.get(option, ""))


def aliases_applied(context: typer.Context, option: str, given: Sequence[str]) -> list[str]:
    """The same for an option that may be repeated. Raises MisuseError for an alias beside other names: it may stand for
    another server."""
    aliases = [name for name in given if name in configured_by(context).aliases]
    if aliases and len(given) > 1:
        raise MisuseError(f"'{aliases[0]}' is an alias, which may name a server of its own; give it alone")
    return [name for name in (alias_applied(context, option, each) for each in given) if name]


def preset_applied(context: typer.Context, name: str | None) -> str | None:
    """Gives the command the options of a preset; those that other commands have alone are passed over. To be called
    before any is read. Raises MisuseError for an unknown name, and for a value that the command does not take."""
    if name is None or context.resilient_parsing:
        return name
    configured = configured_by(context)
    preset = configured.presets.get(name)
    if preset is None:
        known = did_you_mean(name, configured.presets) or ", ".join(configured.presets)
        file = configured.path or "a configuration file"
        raise MisuseError(f"there is no preset '{name}'; {known or f'[{PRESETS}.{name}] in {file} would be one'}")
    _hold(context, f"[{PRESETS}.{name}]", preset)
    return name


def preset_names(file: Path) -> list[str]:
    """Those in a configuration file, for completion: none where it cannot be read."""
    try:
        presets = read_toml(file, "configuration file").get(PRESETS, {})
    except MisuseError:
        return []
    return list(presets) if isinstance(presets, dict) else []


def _hold(context: typer.Context, table: str, options: Mapping[str, Any]) -> None:
    """Has these options of the command hold before the environment and the rest of the file."""
    configured, own = configured_by(context), options_of(context.command)
    defaults = dict(context.default_map or {})
    for name in options.keys() & own.keys():
        where = f"{configured.path}: {table} {name}"
        defaults[own[name].name] = checked_value(context, configured, own[name], where, options[name])
        own[name].envvar = None
    context.default_map = defaults
