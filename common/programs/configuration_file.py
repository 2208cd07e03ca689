"""Reads a program's TOML file and checks it against the options that its commands have.

It may know typer, and of options by name only the secret ones.
"""

import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperOption

from common.programs.nearest import did_you_mean
from common.protocol.errors import MisuseError
from common.protocol.plain import TYPEABLE, is_typeable, plain

SECRETS: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "token": ("token", re.compile("")),
    "fleet-store": ("store's password", re.compile(r"//[^/]*:[^/]*@|[?&]password=")),
}
"""Options whose values are never shown. For each: its secret in words, and a pattern found in values that hold it."""

ALIASES, PRESETS = "aliases", "presets"
"""The tables of sets of options in the file."""

_OTHERS_MAY_READ = stat.S_IRGRP | stat.S_IROTH


@dataclass(frozen=True, slots=True)
class Configured:
    """The content of the file: `shared` options of all commands, `tables` of options of one command each, and the sets
    of options by the names of `aliases` and `presets` (see `option_sets.py`), all by option name with dashes. `path` is
    None if there is no file; `fault` says what is wrong with it."""

    path: Path | None = None
    shared: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fault: str = ""

    @property
    def readable_secrets(self) -> tuple[str, ...]:
        """The secrets in the file, in words, if other users of this machine may read it."""
        if not self.path or not self.path.stat().st_mode & _OTHERS_MAY_READ:
            return ()
        sets = (self.shared, *self.tables.values(), *self.aliases.values(), *self.presets.values())
        return tuple(
            secret
            for option, (secret, mark) in SECRETS.items()
            if any(option in each and mark.search(str(each[option])) for each in sets)
        )


Options = Mapping[str, TyperOption]
"""The options of a command by their names: the long flag without its dashes."""


def options_of(command: Any) -> dict[str, TyperOption]:
    """The options of a typer command."""
    named = [
        (flag.removeprefix("--"), parameter)
        for parameter in command.params
        if isinstance(parameter, TyperOption)
        for flag in parameter.opts
        if flag.startswith("--")
    ]
    return dict(named)


def read_file(path: Path, commands: Mapping[str, Options], *, has_sets: bool) -> Configured:
    """Raises MisuseError for a file that cannot be read, or whose keys no option of these commands has. Only a program
    that `has_sets` takes tables of aliases and presets."""
    content = read_toml(path, "configuration file")
    aliases, presets = (content.pop(table, {}) if has_sets else {} for table in (ALIASES, PRESETS))
    every = {name for options in commands.values() for name in options}
    shared = {key: value for key, value in content.items() if not isinstance(value, dict)}
    tables = {name: table for name, table in content.items() if isinstance(table, dict)}
    for name in tables:
        if name not in commands:
            if _dashed(name) in every:
                raise MisuseError(f"{path}: {name} is an option and not a table; write {name} = ...")
            raise MisuseError(f"{path}: no command takes the table [{name}]{_meant(name, commands, '[{}]')}")
    for key in shared:
        if key in commands and _dashed(key) not in every:
            raise MisuseError(f"{path}: {key} is a command and not an option; write [{key}]")
    return Configured(
        path,
        _by_option(path, "", shared, every),
        {name: _by_option(path, f"[{name}] ", table, set(commands[name])) for name, table in tables.items()},
        _read_sets(path, ALIASES, "alias", aliases, every),
        _read_sets(path, PRESETS, "preset", presets, every),
    )


def _read_sets(path: Path, table: str, what: str, sets: Any, every: set[str]) -> dict[str, dict[str, Any]]:
    if not isinstance(sets, dict):
        raise MisuseError(f"{path}: {table} is a table; write [{table}.NAME]")
    found = {}
    for name, options in sets.items():
        if not is_typeable(name):
            raise MisuseError(f"{path}: [{table}] no {what} can be named '{plain(name)}'; {TYPEABLE}")
        if not isinstance(options, dict) or not options:
            raise MisuseError(f"{path}: the {what} '{name}' stands for nothing; give [{table}.{name}] options")
        found[name] = _by_option(path, f"[{table}.{name}] ", options, every)
    return found


def _by_option(path: Path, where: str, table: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = _dashed(key)
        if name not in known:
            raise MisuseError(f"{path}: {where}there is no option '{key}'{_meant(name, known)}")
        if name in found:
            raise MisuseError(f"{path}: {where}{name} is there twice; leave one of them out")
        found[name] = value
    return found


def defaults_of(
    context: typer.Context, configured: Configured, commands: Mapping[str, Options]
) -> dict[str, dict[str, Any]]:
    """What the file says for each command, by the names of its parameters.

    Raises MisuseError for a value that its command does not take; one for all commands has to suit the one that runs,
    and any of the others.
    """
    values: dict[str, dict[str, Any]] = {command: {} for command in commands}
    unfit: dict[str, MisuseError] = {}
    fit: set[str] = set()
    for command, options in commands.items():
        own = configured.tables.get(command, {})
        for name, value in (dict(configured.shared) | dict(own)).items():
            if name not in options:
                continue
            where = f"{configured.path}: [{command}] {name}" if name in own else f"{configured.path}: {name}"
            try:
                values[command][options[name].name] = checked_value(context, configured, options[name], where, value)
                fit.add(name)
            except MisuseError as error:
                if name in own or command == context.invoked_subcommand:
                    raise
                unfit[name] = error
    for name in unfit.keys() - fit:
        raise unfit[name]
    for table, sets in ((ALIASES, configured.aliases), (PRESETS, configured.presets)):
        for set_name, held in sets.items():
            for name, value in held.items():
                option = next(options[name] for options in commands.values() if name in options)
                checked_value(context, configured, option, f"{configured.path}: [{table}.{set_name}] {name}", value)
    return values


def checked_value(context: typer.Context, configured: Configured, option: TyperOption, where: str, value: Any) -> Any:
    """The value as the command takes it. Raises MisuseError, which begins with `where`, if it does not fit."""
    assert configured.path is not None
    values = value if option.multiple and isinstance(value, list) else [value]
    annotation = option.type_descriptor.annotation
    kind = get_args(annotation)[0] if option.multiple else annotation
    wanted, types = _WANTED.get(kind, _TEXT)
    for each in values:
        if type(each) not in types:
            raise MisuseError(f"{where} must be {wanted}, not {_as_written(each)}")
    if kind is str:
        values = [str(each) for each in values]
    if kind is Path:
        values = [str(configured.path.parent / Path(each).expanduser()) for each in values]
    fitting = values if option.multiple else values[0]
    try:
        option.process_value(context, fitting)
    except typer.TyperException as error:
        reason = error.message.rstrip(".")
        raise MisuseError(f"{where} does not fit: {reason}") from error
    return fitting


_TEXT: tuple[str, tuple[type, ...]] = ("text in quotes", (str, int, float))
"""Numbers are accepted without quotes, as on the command line."""

_WANTED: Mapping[Any, tuple[str, tuple[type, ...]]] = {
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    Path: ("a path in quotes", (str,)),
}


def _as_written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    return repr(value) if isinstance(value, str) else str(value)


def _meant(name: str, known: Iterable[str], form: str = "'{}'") -> str:
    question = did_you_mean(name, known, form)
    return f"; {question}" if question else ""


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """`what` names the file for people. Raises MisuseError if it cannot be read or is not valid."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MisuseError(f"the {what} {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise MisuseError(f"the {what} {path} is not valid TOML: {error}") from error
