"""The command line of `outrider service`; as `cli.py`, from which it is a part."""

import typer
from typer.core import TyperGroup

from common.programs.command_line import FAILURE, new_app
from common.protocol.errors import MisuseError

app = new_app("Have this system run `outrider serve` from every login on.", add_completion=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def install(context: typer.Context) -> None:
    """Install and start the service. All options are those of `outrider serve`, which it runs with."""
    from client.commands.service import install as install_command

    root = context.find_root()
    assert isinstance(root.command, TyperGroup)
    # Fails now if `outrider serve` would.
    parsed = root.command.commands["serve"].make_context("serve", list(context.args), parent=root)
    source = parsed.get_parameter_source("token")
    if source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT"):
        raise MisuseError(
            "a service sees no variable of this shell, and others may read its file; put the token into a file and "
            "give --token-file"
        )
    config = root.params.get("config")
    install_command([*(("--config", str(config.absolute())) if config else ()), "serve", *context.args])


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
