"""The command line of `outrider service`; as `cli.py`, from which it is a part."""

import os
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from common.programs.command_line import FAILURE, new_app
from common.programs.configuration import configured_by
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
            "others may read the service's file; put the token into a file of its own and give --token-file"
        )
    surroundings = _surroundings()
    parsed.meta[CHECK_ONLY] = True
    with parsed:
        serve.invoke(parsed)
    file = configured_by(context).path
    words = [*(("--config", str(file.absolute())) if file else ()), "serve", *context.args]
    install_command(words, {**_variables_read(serve.params, parsed), **surroundings})


def _surroundings() -> dict[str, str]:
    """The variables of this shell that say where the cache lies, which proxy leads to the server and whom the system
    trusts. Raises MisuseError for a proxy's password."""
    from common.rpc.credentials import AUTHORITY_VARIABLES
    from common.rpc.proxy import PROXY_VARIABLES, has_password

    names = ("XDG_CACHE_HOME", *PROXY_VARIABLES, *AUTHORITY_VARIABLES)
    found = {name: os.environ[name] for name in names if name in os.environ}
    for name in PROXY_VARIABLES:
        if has_password(found.get(name, "")):
            raise MisuseError(
                f"others may read the service's file, and {name} has a password; name a proxy that asks for none, or "
                f"unset {name} and set it in the service manager's own environment"
            )
    return found


def _variables_read(parameters: Sequence[Any], parsed: Any) -> dict[str, str]:
    """The variables of this shell that have set options: a service does not see them, and no flag says what some say,
    as `OUTRIDER_TLS=0` beside a file that has it."""
    sources = {str(each.envvar): parsed.get_parameter_source(str(each.name)) for each in parameters}
    return {
        variable: os.environ[variable]
        for variable, source in sources.items()
        if source is not None and source.name == "ENVIRONMENT"
    }


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
