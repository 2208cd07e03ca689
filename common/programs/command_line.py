"""What all programs share: `--version`, exit codes, and one sentence instead of a traceback.

Exit codes: 0 done, 1 failure, 2 misuse, 130 interrupted, 143 ended by SIGTERM, where the system does not say so itself.
OUTRIDER_DEBUG=1 shows tracebacks all the same. It may know typer and the error families, no command.
"""

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer

from common.memory import TOO_LITTLE_MEMORY, is_out_of_memory
from common.programs.debugging import is_debugging, show_traceback
from common.programs.interruption import INTERRUPTED, Interruption, let_sigterm_end_the_first_process
from common.programs.plain_stream import guard_streams
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.plain import LONGEST_LINE, plain

FAILURE = 1
MISUSE = 2

_WIDEST_HELP = 100


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"Outrider {version('outrider')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
]


def one_of(*values: str) -> Callable[[str], list[str]]:
    """Completes an option's value with these."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


def new_app(about: str, epilog: str | None = None, **settings: Any) -> typer.Typer:
    """Commands, none yet, with -h beside --help. `settings` are more of typer's own."""
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST_HELP},
        epilog=epilog,
        rich_markup_mode=None,  # whose panels need 240 lines of 80 columns for what 94 say without them
        **settings,
    )


def run(app: typer.Typer, name: str, interrupted: str = "") -> NoReturn:
    """Runs the command line of the program `name` and exits; `interrupted` is printed after Ctrl-C, unless an
    `Interruption` says more."""
    try:
        _run(app, name, interrupted)
    except SystemExit as ended:
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_initialized():
            raise
        # Threads of a process group need the interpreter while it shuts down, which would hang or abort.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(int(ended.code or 0))


def _run(app: typer.Typer, name: str, interrupted: str) -> NoReturn:
    let_sigterm_end_the_first_process(f"{name}: stopped")
    guard_streams()
    # Otherwise gRPC writes its errors to stderr, too.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    code, sentence = FAILURE, ""
    try:
        debugs = is_debugging()
    except MisuseError as misuse:
        exit_with(name, str(misuse), MISUSE)
    try:
        try:
            code = app(standalone_mode=False)
        except (Exception, KeyboardInterrupt) as error:
            if debugs and not isinstance(error, typer.Exit):
                show_traceback(error)
            raise
    except typer.TyperException as misuse:
        wrong = _sentence(misuse)
        if not wrong:  # it has shown the help
            sys.exit(MISUSE)
        join = " " if wrong.endswith("?") else "; "
        exit_with(name, f"{wrong}{join}see `{_where(misuse, name)} --help`", MISUSE)
    except MisuseError as misuse:
        exit_with(name, str(misuse), MISUSE)
    except (OutriderError, OSError) as failure:
        exit_with(name, str(failure), FAILURE)
    except Interruption as interruption:
        exit_with(name, str(interruption), INTERRUPTED)
    except typer.Abort:
        code = INTERRUPTED
    except MemoryError:
        sentence = TOO_LITTLE_MEMORY
    # A person gets a sentence, whatever happens.
    except Exception as failure:
        sentence = f"it failed unexpectedly: {type(failure).__name__}: {failure}"
        if is_out_of_memory(failure):
            sentence = TOO_LITTLE_MEMORY
    # After the exception is released, and with it the memory that the failed call held: printing needs memory too.
    if sentence:
        exit_with(name, sentence, FAILURE)
    # typer turns Ctrl-C into this code.
    if code == INTERRUPTED and interrupted:
        exit_with(name, interrupted, INTERRUPTED)
    sys.exit(code)


def _sentence(misuse: typer.TyperException) -> str:
    if isinstance(misuse, typer.BadParameter) and misuse.ctx and misuse.param:
        source = misuse.ctx.get_parameter_source(misuse.param.name)
        if source is not None and source.name == "ENVIRONMENT":
            misuse.param_hint = str(misuse.param.envvar)
    unknown: Any = misuse if hasattr(misuse, "possibilities") else None  # typer does not export its class
    if unknown and unknown.ctx and unknown.ctx.parent:
        program = unknown.ctx.find_root().command
        if any(unknown.option_name in parameter.opts for parameter in program.params):
            return f"{unknown.option_name} goes before the command"
    return misuse.format_message().rstrip(".")


def _where(misuse: typer.TyperException, name: str) -> str:
    """The command whose help says more."""
    context: Any = getattr(misuse, "ctx", None)
    commands: list[str] = []
    while context is not None and context.parent is not None:
        commands.insert(0, context.info_name)
        context = context.parent
    return " ".join([name, *commands])


def exit_with(name: str, sentence: str, code: int) -> NoReturn:
    typer.echo(f"{name}: {plain(sentence, LONGEST_LINE)}", err=True)
    sys.exit(code)
