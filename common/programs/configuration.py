"""The values of options whose flags are absent: from the environment, then a TOML file, then the default.

Options are read off typer's own objects, so that every option of a command can be configured. It may know typer, and no
program's options by name.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from common.programs.configuration_file import Configured, Options, defaults_of, options_of, read_file
from common.programs.debugging import DEBUG_VARIABLE
from common.programs.nearest import did_you_mean
from common.protocol.errors import MisuseError

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Read options from this TOML file, instead of the usual one."),
]

_META = "outrider.configured"
_HELP = "--help"
_MISSPELT = 0.75  # alike enough for a variable, which may well be somebody else's


@dataclass(frozen=True, slots=True)
class Program:
    """A program and its sources of configuration. `files`: candidate paths of its file; the first that exists is read.
    `tolerant`: commands that run even if the file is faulty. `foreign`: environment variables that begin with its
    prefix but belong to another program. `has_sets`: its file may name sets of options, see `option_sets.py`."""

    name: str
    files: tuple[Path, ...]
    tolerant: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    has_sets: bool = False

    @property
    def prefix(self) -> str:
        """What its variables' names begin with."""
        return f"{self.name.upper()}_"

    @property
    def variable(self) -> str:
        """The variable that names its file."""
        return f"{self.prefix}CONFIG"


def user_file(name: str) -> Path:
    """The path of this user's configuration file of that name."""
    import platformdirs

    return platformdirs.user_config_path("outrider") / name


def configure(context: typer.Context, program: Program, chosen: Path | None) -> None:
    """Makes each command's options readable from the environment and the file. The group's callback calls it.

    Raises MisuseError if the file cannot be read, or has a key or value that no option takes.
    """
    commands = _commands(context)
    for options in commands.values():
        for name, option in options.items():
            if option.envvar is None:
                # Help does not show the variables: their names follow from the options'.
                option.envvar, option.show_envvar = variable_of(program, name), False
    path = chosen or _usual_file(program)
    try:
        configured = Configured() if path is None else read_file(path, commands, has_sets=program.has_sets)
        context.default_map = defaults_of(context, configured, commands)
    except MisuseError as error:
        if context.invoked_subcommand not in program.tolerant and _HELP not in sys.argv:
            raise
        configured = Configured(path, fault=str(error))
    context.meta[_META] = configured
    if context.invoked_subcommand in program.tolerant:
        return
    if configured.readable_secrets:
        typer.echo(f"{program.name}: {secret_warning(configured)}", err=True)
    for name, meant in unread_variables(context, program, os.environ).items():
        if meant:
            typer.echo(f"{program.name}: nothing reads {name}; {meant}", err=True)


def configured_by(context: typer.Context) -> Configured:
    """What `configure` has read; nothing while it is checking that."""
    found: Configured = context.meta.get(_META, Configured())
    return found


def secret_warning(configured: Configured) -> str:
    """The warning for a file that has `readable_secrets`."""
    secrets = " and the ".join(configured.readable_secrets)
    return f"others on this machine can read the {secrets} in {configured.path}; run `chmod 600 {configured.path}`"


def variable_of(program: Program, option: str) -> str:
    return program.prefix + option.replace("-", "_").upper()


def unread_variables(context: typer.Context, program: Program, environment: Iterable[str]) -> dict[str, str]:
    """The variables with the program's prefix that nothing reads, each with a suggestion ("did you mean ...?"), empty
    if no known variable is similar."""
    read = {program.variable, DEBUG_VARIABLE}
    for options in _commands(context).values():
        read |= {str(option.envvar) for option in options.values()}
    known = [name.removeprefix(program.prefix) for name in read]
    unread = sorted({name for name in environment if name.startswith(program.prefix)} - read - program.foreign)
    return {
        name: did_you_mean(name.removeprefix(program.prefix), known, program.prefix + "{}", _MISSPELT)
        for name in unread
    }


def without_settings(environment: Mapping[str, str], program: str) -> dict[str, str]:
    """The environment without that program's settings: it then runs with its flags and defaults alone. Whether
    tracebacks are shown stays as it is."""
    prefix = f"{program.upper()}_"
    kept = {name: value for name, value in environment.items() if not name.startswith(prefix) or name == DEBUG_VARIABLE}
    return kept | {f"{prefix}CONFIG": os.devnull}


def _usual_file(program: Program) -> Path | None:
    named = os.environ.get(program.variable)
    return Path(named) if named else next((file for file in program.files if file.is_file()), None)


def _commands(context: typer.Context) -> dict[str, Options]:
    group = context.find_root().command
    assert isinstance(group, TyperGroup)
    return {name: options_of(command) for name, command in group.commands.items()}
