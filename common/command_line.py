"""How every command of ours ends: 0 done, 1 failure, 2 misuse, 130 interrupted; a sentence instead of a traceback.

Knows typer and our error families, and no command.
"""

import os
import sys
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from common.protocol.errors import MisuseError, OutriderError

FAILURE = 1
MISUSE = 2
INTERRUPTED = 130

_BEFORE_THE_COMMAND = ("--config", "--version")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"Outrider {version('outrider')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
]


def run(app: typer.Typer, name: str, interrupted: str = "") -> NoReturn:
    """Runs the command line of the program `name` and exits; `interrupted` is said after Ctrl-C."""
    # gRPC writes errors of its own to stderr otherwise, beside ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as misuse:
        exit_with(name, f"{_sentence(misuse)}; see `{name} --help`", MISUSE)
    except MisuseError as misuse:
        exit_with(name, str(misuse), MISUSE)
    except (OutriderError, OSError) as failure:
        exit_with(name, str(failure), FAILURE)
    except typer.Abort:
        code = INTERRUPTED
    # A person gets a sentence, whatever happens.
    except Exception as failure:
        exit_with(name, f"it failed unexpectedly: {type(failure).__name__}: {failure}", FAILURE)
    # typer turns Ctrl-C into this code.
    if code == INTERRUPTED and interrupted:
        exit_with(name, interrupted, INTERRUPTED)
    sys.exit(code)


def _sentence(misuse: typer.TyperException) -> str:
    if isinstance(misuse, typer.BadParameter) and misuse.ctx and misuse.param:
        source = misuse.ctx.get_parameter_source(misuse.param.name)
        if source is not None and source.name == "ENVIRONMENT":
            misuse.param_hint = str(misuse.param.envvar)
    unknown = getattr(misuse, "option_name", "")
    if unknown in _BEFORE_THE_COMMAND:
        return f"{unknown} goes before the command"
    return misuse.format_message().rstrip(".?")


def exit_with(name: str, sentence: str, code: int) -> NoReturn:
    typer.echo(f"{name}: {sentence}", err=True)
    sys.exit(code)
