"""What the options of a program say where their flags are absent: the environment, then a TOML file, then the default.

Options are found on the command line's own objects, so that whatever a command learns to take can be configured too.
It may know typer, and no program's options by name but those that are secret.
"""

import os
import stat
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperGroup, TyperOption

from common.protocol.errors import MisuseError

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Read options from this TOML file, not from the usual.")
]

SECRETS = frozenset({"token"})
"""Options whose values nobody may see."""

_META = "outrider.configured"
_HELP = "--help"
_OTHERS_MAY_READ = stat.S_IRGRP | stat.S_IROTH


@dataclass(frozen=True, slots=True)
class Program:
    """`files`: where its file may lie, of which the first that exists counts. `tolerant`: commands that run although
    the file is faulty."""

    name: str
    files: tuple[Path, ...]
    tolerant: frozenset[str] = frozenset()

    @property
    def prefix(self) -> str:
        """What its variables' names begin with."""
        return f"{self.name.upper()}_"

    @property
    def variable(self) -> str:
        """The variable that names its file."""
        return f"{self.prefix}CONFIG"


@dataclass(frozen=True, slots=True)
class Configured:
    """What was read: `shared` for all commands, `tables` for one each, both by options' names with dashes. `path` is
    None where there is no file; `fault` says what is wrong with it."""

    path: Path | None = None
    shared: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fault: str = ""

    @property
    def tells_a_secret(self) -> bool:
        """Whether it holds a secret that others on this machine may read."""
        told = set(self.shared).union(*self.tables.values()) & SECRETS
        return bool(told and self.path and self.path.stat().st_mode & _OTHERS_MAY_READ)


def user_file(name: str) -> Path:
    """Where this user's configuration file of that name lies."""
    import platformdirs

    return platformdirs.user_config_path("outrider") / name


def configure(context: typer.Context, program: Program, chosen: Path | None) -> None:
    """Lets each command's options come from the environment and the file. To be called by the group's callback.

    Raises MisuseError where the file cannot be read, or says what no option takes.
    """
    commands = _commands(context)
    for options in commands.values():
        for name, option in options.items():
            if option.envvar is None:
                # Shown with each option, they would drown what it means.
                option.envvar, option.show_envvar = variable_of(program, name), False
    path = chosen or _usual_file(program)
    try:
        configured = Configured() if path is None else read_file(path, commands)
        context.default_map = _defaults(context, configured, commands)
    except MisuseError as error:
        if context.invoked_subcommand not in program.tolerant and _HELP not in sys.argv:
            raise
        configured = Configured(path, fault=str(error))
    context.meta[_META] = configured
    if configured.tells_a_secret and context.invoked_subcommand not in program.tolerant:
        typer.echo(f"{program.name}: {secret_told(configured)}", err=True)


def configured_by(context: typer.Context) -> Configured:
    """What `configure` has read."""
    found: Configured = context.meta[_META]
    return found


def secret_told(configured: Configured) -> str:
    """What to say where `tells_a_secret`."""
    return f"others on this machine can read the token in {configured.path}; run `chmod 600 {configured.path}`"


def variable_of(program: Program, option: str) -> str:
    return program.prefix + option.replace("-", "_").upper()


def unread_variables(context: typer.Context, program: Program, environment: Iterable[str]) -> dict[str, str]:
    """The variables that look like the program's and are read by nothing, each with the nearest one that is."""
    read = {program.variable}
    for options in _commands(context).values():
        read |= {str(option.envvar) for option in options.values()}
    unread = sorted(name for name in environment if name.startswith(program.prefix) and name not in read)
    return {name: _nearest(name, read) for name in unread}


def without_settings(environment: Mapping[str, str], program: str) -> dict[str, str]:
    """An environment in which that program runs with its flags and defaults alone."""
    prefix = f"{program.upper()}_"
    kept = {name: value for name, value in environment.items() if not name.startswith(prefix)}
    return kept | {f"{prefix}CONFIG": os.devnull}


Options = Mapping[str, TyperOption]
"""The options of a command by their names: the long flag without its dashes."""


def options_of(command: Any) -> dict[str, TyperOption]:
    """Those of a command as typer has it."""
    named = [
        (flag.removeprefix("--"), parameter)
        for parameter in command.params
        if isinstance(parameter, TyperOption)
        for flag in parameter.opts
        if flag.startswith("--")
    ]
    return dict(named)


def read_file(path: Path, commands: Mapping[str, Options]) -> Configured:
    """Raises MisuseError for a file that cannot be read, or whose keys no option of these commands has."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MisuseError(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise MisuseError(f"the configuration file {path} is not valid TOML: {error}") from error
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
    )


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


def _defaults(
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
                values[command][options[name].name] = _checked(context, configured, options[name], where, value)
                fit.add(name)
            except MisuseError as error:
                if name in own or command == context.invoked_subcommand:
                    raise
                unfit[name] = error
    for name in unfit.keys() - fit:
        raise unfit[name]
    return values


def _checked(context: typer.Context, configured: Configured, option: TyperOption, where: str, value: Any) -> Any:
    """The value as the command takes it. Raises MisuseError, which begins with `where`, where it does not fit."""
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
"""A number may stand without quotes, as on the command line."""

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
    nearest = _nearest(name, known)
    return f"; did you mean {form.format(nearest)}?" if nearest else ""


def _nearest(name: str, known: Iterable[str]) -> str:
    return next(iter(get_close_matches(name, sorted(known), n=1)), "")


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def _usual_file(program: Program) -> Path | None:
    named = os.environ.get(program.variable)
    return Path(named) if named else next((file for file in program.files if file.is_file()), None)


def _commands(context: typer.Context) -> dict[str, Options]:
    group = context.find_root().command
    assert isinstance(group, TyperGroup)
    return {name: options_of(command) for name, command in group.commands.items()}
