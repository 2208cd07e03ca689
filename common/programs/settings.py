"""Shows the present values of a program's options and where each comes from.

It may not know what any option means, and shows no secret.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperGroup

from common.programs.configuration import Program, configured_by, secret_warning, unread_variables, variable_of
from common.programs.configuration_file import SECRETS, options_of
from common.programs.findings import Finding
from common.protocol.errors import MisuseError

_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """One option's value as text, and its source: an environment variable, the file, or the default."""

    option: str
    value: str
    source: str


def show_settings(context: typer.Context, program: Program, command: str | None) -> None:
    """Prints the file's path, then every option of `command`, or for None the options of all commands that differ from
    their defaults, the aliases and the presets.

    `context` is a command's own. Raises MisuseError for an unknown command.
    """
    group = context.find_root().command
    assert isinstance(group, TyperGroup)
    if command is not None and command not in group.commands:
        raise MisuseError(f"there is no command '{command}'; choose from: {', '.join(group.commands)}")
    configured = configured_by(context)
    typer.echo(f"file: {configured.path}" if configured.path else f"file: none; {program.files[0]} would be read")
    if command is not None:
        _print(_settings(context, program, command))
        return
    found = dict.fromkeys(setting for name in group.commands for setting in _settings(context, program, name))
    changed = [setting for setting in found if setting.source != _DEFAULT]
    _print(changed)
    if not changed:
        typer.echo("every option has its default")
    for what, sets in (("alias", configured.aliases), ("preset", configured.presets)):
        for name, options in sets.items():
            shown = ", ".join(f"{option} {_shown(option, value)}" for option, value in options.items())
            typer.echo(f"{what} {name}: {shown}")


def check_settings(context: typer.Context, program: Program, environment: Iterable[str]) -> list[Finding]:
    """Findings for `doctor` about the configuration file and the environment variables. `context` is a command's
    own."""
    configured = configured_by(context)
    if configured.fault:
        return [Finding("configuration", configured.fault, "fix the file, or name another with --config")]
    read = str(configured.path) if configured.path else "no file; flags and the environment alone"
    findings = [Finding("configuration", read)]
    if configured.readable_secrets:
        detail, _, fix = secret_warning(configured).partition("; ")
        findings = [Finding("configuration", detail, fix, is_minor=True)]
    for name, meant in unread_variables(context, program, environment).items():
        findings.append(Finding("environment", f"nothing reads {name}", meant or "unset it", is_minor=True))
    return findings


def value_of(context: typer.Context, command: str, option: str) -> Any:
    """The value of a command's option when its flag is absent. `context` is another command's own."""
    return _parsed(context, command).params[options_of(_command(context, command))[option].name]


def _settings(context: typer.Context, program: Program, command: str) -> Iterator[Setting]:
    configured, parsed = configured_by(context), _parsed(context, command)
    for name, option in options_of(_command(context, command)).items():
        source = parsed.get_parameter_source(option.name)
        match source.name if source else "":
            case "ENVIRONMENT":
                origin = str(option.envvar or variable_of(program, name))
            case "DEFAULT_MAP":
                origin = f"file, [{command}]" if name in configured.tables.get(command, {}) else "file"
            case _:
                origin = _DEFAULT
        yield Setting(name, _shown(name, parsed.params[option.name]), origin)


def _parsed(context: typer.Context, command: str) -> Any:
    return _command(context, command).make_context(command, [], parent=context.find_root(), resilient_parsing=True)


def _command(context: typer.Context, command: str) -> Any:
    group = context.find_root().command
    assert isinstance(group, TyperGroup)
    return group.commands[command]


def _shown(name: str, value: object) -> str:
    if value is None or value in ([], (), ""):
        return "-"
    if name in SECRETS:
        return "(set)"
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _print(settings: Iterable[Setting]) -> None:
    rows = list(settings)
    widths = [max((len(text) for text in column), default=0) for column in zip(*map(_columns, rows), strict=True)]
    for row in map(_columns, rows):
        typer.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _columns(setting: Setting) -> tuple[str, str, str]:
    return setting.option, setting.value, setting.source
