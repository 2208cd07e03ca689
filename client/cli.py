"""The command line of `outrider`: reads arguments, calls a command, turns errors into one sentence.

No drafting, no link and no text here. Commands import what they need when they run, so that --help is quick.
"""

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from client import options as option
from common.command_line import FAILURE
from common.command_line import run as run_command_line

app = typer.Typer(
    help="Talk to a large model over a bad link: a small one on this machine rides ahead of it.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
@option.with_folded_options
def run(
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    server: option.Server,
    draft: option.Draft = None,
    device: option.Device = "cpu",
    dtype: option.Dtype = "float32",
    threads: option.Threads = 0,
    layers: option.Layers = None,
    state: option.StateDtype = "int8",
    raw: Annotated[bool, typer.Option("--raw", help="Send the prompt as it is, without the chat template.")] = False,
    as_json: option.AsJson = False,
    private_file: option.PrivateFile = None,
    pace_draft: option.PaceDraft = 0.0,
    cache_dir: option.CacheDir = None,
    *,
    request: option.AnswerRequest,
    unlinked: option.OfflineRequest,
    credentials: option.Credentials,
) -> None:
    r"""Ask once and show the answer as it is committed.

    From [\[private]] ... [\[/private]] on, the prompt stays on this machine, where the draft answers alone."""
    import asyncio

    from client.assembly import DraftChoice
    from client.commands.run import run as run_command

    access = credentials.access_to(server)
    choice = DraftChoice(draft, device, dtype, threads, layers, state)
    options = request.options(pace_draft / 1000)
    question, offline = _read_prompt(prompt, private_file), unlinked.options()
    asyncio.run(run_command(access, choice, cache_dir, question, options, offline, raw=raw, as_json=as_json))


@app.command()
@option.with_folded_options
def chat(
    server: option.Server,
    draft: option.Draft = None,
    device: option.Device = "cpu",
    dtype: option.Dtype = "float32",
    threads: option.Threads = 0,
    layers: option.Layers = None,
    state: option.StateDtype = "int8",
    cache_dir: option.CacheDir = None,
    *,
    request: option.AnswerRequest,
    unlinked: option.OfflineRequest,
    credentials: option.Credentials,
) -> None:
    r"""Talk, several turns in one session; Ctrl-C stops an answer, /quit leaves.

    From [\[private]] ... [\[/private]] on, the conversation stays on this machine, where the draft answers alone."""
    from client.assembly import DraftChoice
    from client.commands.chat import chat as chat_command

    access = credentials.access_to(server)
    choice = DraftChoice(draft, device, dtype, threads, layers, state)
    chat_command(access, choice, cache_dir, request.options(), unlinked.options())


@app.command()
@option.with_folded_options
def pull(
    server: option.Server,
    draft: option.Draft = None,
    cache_dir: option.CacheDir = None,
    *,
    credentials: option.Credentials,
) -> None:
    """Fetch what this machine needs for a server's target; an interrupted pull goes on where it stopped."""
    import asyncio

    from client.commands.pull import pull as pull_command

    asyncio.run(pull_command(credentials.access_to(server), draft, cache_dir))


@app.command()
@option.with_folded_options
def doctor(
    server: Annotated[str | None, typer.Option("--server", metavar="HOST:PORT", help="Check this one too.")] = None,
    device: option.Device = "cpu",
    cache_dir: option.CacheDir = None,
    *,
    credentials: option.Credentials,
) -> None:
    """Check this machine, and a server from here, and say what to mend."""
    import asyncio

    from client.commands.doctor import doctor as doctor_command

    access = credentials.access_to(server) if server else None
    if not asyncio.run(doctor_command(access, device, cache_dir)):
        raise typer.Exit(FAILURE)


@app.command()
def demo(
    as_json: option.AsJson = False,
    prompts: Annotated[int, typer.Option("--prompts", min=1, help="How many prompts each system answers.")] = 3,
    max_new_tokens: option.MaxNewTokens = 160,
    profile: Annotated[str, typer.Option("--profile", help="The link; `outrider-lab profiles` lists them.")] = "4g",
    seed: Annotated[int, typer.Option("--seed", help="Chooses the prompts.")] = 0,
    models: Annotated[
        Path | None, typer.Option("--models", help="A folder with target, draft and prompts.jsonl instead.")
    ] = None,
) -> None:
    """Show the whole system on the shipped models over an emulated link, beside what it replaces."""
    import asyncio

    from client.commands.demo import DemoOptions
    from client.commands.demo import demo as demo_command

    asyncio.run(demo_command(DemoOptions(prompts, max_new_tokens, profile, seed, models), as_json=as_json))


def _read_prompt(argument: str, private_file: Path | None) -> str:
    from client.private import as_private, before_private
    from client.text import valid_text
    from common.protocol.errors import MisuseError

    try:
        prompt = valid_text(sys.stdin.read() if argument == "-" else argument)
    except UnicodeError as error:
        raise MisuseError("the prompt is not valid text; give it in UTF-8") from error
    if private_file is not None:
        try:
            prompt = f"{prompt}\n{as_private(private_file.read_text(encoding='utf-8'))}"
        except UnicodeError as error:
            raise MisuseError(f"the private file {private_file} is not valid text; give it in UTF-8") from error
        except OSError as error:
            raise MisuseError(f"the private file {private_file} cannot be read; check its name and rights") from error
    before_private(prompt)  # fails now where its spans cannot be
    return prompt


def main() -> NoReturn:
    """Run the command line and exit."""
    # An answer may hold characters that this terminal's encoding lacks.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    run_command_line(app, "outrider")


if __name__ == "__main__":
    main()
