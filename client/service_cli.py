"""The command line of `outrider service`; as `cli.py`, from which it is a part."""

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption

from common.programs.command_line import FAILURE, new_app
from common.protocol.errors import MisuseError

CHECK_ONLY = "client.service_cli.check_only"
"""A key of a context's `meta`: `outrider serve` checks its options, and ends."""

app = new_app("Have this system run `outrider serve` from every login on.", add_completion=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def install(context: typer.Context) -> None:
    """Install and start the service. All options are those of `outrider serve`, which it runs with."""
    from client.commands.service import install as install_command

    root = context.find_root()
    assert isinstance(root.command, TyperGroup)
    serve = root.command.commands["serve"]
    # Fails now if `outrider serve` would.
    parsed = serve.make_context("serve", list(context.args), parent=root)
    source = parsed.get_parameter_source("token")
    if source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT"):
        raise MisuseError(
            "a service sees no variable of this shell, and others may read its file; put the token into a file and "
            "give --token-file"
        )
    parsed.meta[CHECK_ONLY] = True
    with parsed:
        serve.invoke(parsed)
    config = root.params.get("config")
    kept = [*context.args, *_of_environment(serve.params, parsed)]
    install_command([*(("--config", str(config.absolute())) if config else ()), "serve", *kept])


def _of_environment(parameters: Sequence[Any], parsed: Any) -> list[str]:
    """As words of a command line: the options that variables of this shell have set, which a service does not see."""
    words: list[str] = []
    for each in parameters:
        source, value = parsed.get_parameter_source(str(each.name)), parsed.params.get(str(each.name))
        if source is None or source.name != "ENVIRONMENT" or not isinstance(each, TyperOption):
            continue
        if each.is_flag:
            words += each.opts[:1] if value else each.secondary_opts[:1]
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [each.opts[0], str(one)]
    return words


@app.command()
def uninstall() -> None:
    """Stop the service and remove it."""
    from client.commands.service import uninstall as uninstall_command

    uninstall_command()


@app.command()
def status() -> None:
    """Say whether the service is installed and runs. Exits with 1 if it does not."""
    from client.commands.service import show_status

    if not show_status():
        raise typer.Exit(FAILURE)
