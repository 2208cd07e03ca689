"""The command line of `outrider`: reads arguments, calls a command, turns errors into one sentence.

No drafting, no link and no text here. Commands import what they need when they run, so that --help is quick.
"""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from client.link.offline import DEFAULT_LIMIT_TOKENS, DEFAULT_NOTE, DEFAULT_WAIT_S
from client.options import answers, connection, display, drafting, outages
from client.service_cli import CHECK_ONLY
from client.service_cli import app as service_commands
from client.terminal.loading import STOPPED, loading
from client.terminal.piped import read_beside_prompt
from common.programs.command_line import FAILURE, Version, new_app
from common.programs.command_line import run as run_command_line
from common.programs.configuration import ConfigFile, Program, configure, user_file
from common.programs.folded_options import with_folded_options
from common.programs.interruption import ended_at_once

app = new_app(
    "Talk to a large model over an unreliable link; a small draft model on this machine writes ahead of it.",
    "Every option may also stand in a configuration file, or in the environment: OUTRIDER_MAX_NEW_TOKENS is "
    "--max-new-tokens. `outrider config` shows their values.",
)

app.add_typer(service_commands, name="service")

PROGRAM = Program(
    "outrider",
    (user_file("config.toml"),),
    tolerant=frozenset({"doctor"}),
    foreign=frozenset({"OUTRIDER_LINK_SERVER"}),  # what `outrider-lab link` tells its command
    has_sets=True,
)


@app.callback()
def configured(context: typer.Context, config: ConfigFile = None, version: Version = False) -> None:
    configure(context, PROGRAM, config)


@app.command()
@with_folded_options
def run(
    server: connection.Server,
    prompt: Annotated[
        str, typer.Argument(help="What to ask; what is piped in comes before it, and is the prompt without it.")
    ] = "",
    preset: drafting.Preset = None,
    model: drafting.Model = "",
    system: answers.System = "",
    raw: Annotated[bool, typer.Option("--raw", help="Send the prompt unchanged, without the chat template.")] = False,
    as_json: display.AsJson = False,
    private_file: answers.PrivateFile = None,
    pace_draft: answers.PaceDraft = 0.0,
    cache_dir: drafting.CacheDir = None,
    via_serve: drafting.ViaServe = True,
    *,
    draft_flags: drafting.DraftFlags,
    answer_flags: answers.AnswerFlags,
    offline_flags: outages.OfflineFlags,
    credentials: connection.Credentials,
) -> None:
    """Ask once and show the answer as it is committed.

    From [[private]] ... [[/private]] on, the prompt stays on this machine, where the draft model answers alone."""
    from client.text import Question

    question, declined = Question(_read_prompt(prompt, private_file), system, raw), None
    if via_serve:
        from client.local_serve.request import RequestOptions
        from client.local_serve.run_client import answer_by_serve

        options = RequestOptions(credentials, answer_flags, offline_flags, draft_flags.fields(model), pace_draft)
        with loading() as loaded:
            declined = answer_by_serve(cache_dir, server, question, options, loaded, as_json=as_json)
        if declined is None:
            return
    with loading() as loaded:
        import asyncio

        from client.commands.run import run as run_command

        access, choice = credentials.access_to(server), draft_flags.choice(model)
        answer, offline = answer_flags.options(pace_draft / 1000), offline_flags.options()
        asyncio.run(
            run_command(access, choice, cache_dir, question, answer, offline, loaded, declined, as_json=as_json)
        )


@app.command()
@with_folded_options
def chat(
    server: connection.Server,
    preset: drafting.Preset = None,
    model: drafting.Model = "",
    cache_dir: drafting.CacheDir = None,
    via_serve: drafting.ViaServe = True,
    *,
    draft_flags: drafting.DraftFlags,
    conversation_flags: answers.ConversationFlags,
    answer_flags: answers.AnswerFlags,
    offline_flags: outages.OfflineFlags,
    screen_flags: display.ScreenFlags,
    credentials: connection.Credentials,
) -> None:
    """Chat: several turns in one session. Ctrl-C stops an answer, /help lists what can be typed.

    From [[private]] ... [[/private]] on, the conversation stays on this machine and the draft model answers alone."""
    with loading() as loaded:
        from client.chat.settings import ChatSettings
        from client.commands.chat import ChatRequest
        from client.commands.chat import chat as chat_command

        settings = ChatSettings(answer_flags, offline_flags, screen_flags, conversation_flags)
        request = ChatRequest(server, credentials, draft_flags.fields(model), cache_dir, settings, via_serve)
        is_well = chat_command(request, loaded)
    if not is_well:
        raise typer.Exit(FAILURE)


@app.command()
@with_folded_options
def serve(
    context: typer.Context,
    server: connection.Server,
    preset: drafting.Preset = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="The address for apps; port 0 picks a free one.")
    ] = "127.0.0.1:8080",
    offline: Annotated[
        str,
        typer.Option(
            "--offline", help="While the server is unreachable: answer with the draft model alone, or refuse."
        ),
    ] = "answer",
    parallel: Annotated[int, typer.Option("--parallel", min=1, help="Requests that are answered at once.")] = 4,
    api_key_file: Annotated[
        Path | None, typer.Option("--api-key-file", help="Require the API key in this file from apps.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", metavar="ORIGIN", help="Let web pages of this origin ask; may be repeated."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse requests with unknown parameters.")] = False,
    tool_parser: Annotated[
        str | None,
        typer.Option("--tool-parser", metavar="NAME", help="How the target writes tool calls: hermes, for example."),
    ] = None,
    offline_limit: outages.OfflineLimit = DEFAULT_LIMIT_TOKENS,
    offline_wait: outages.OfflineWait = DEFAULT_WAIT_S,
    offline_note: Annotated[
        str,
        typer.Option(
            "--offline-note",
            metavar="TEXT",
            show_default=False,
            help="The last line of a streamed chat's answer that the draft model wrote in part; '' for none.",
        ),
    ] = DEFAULT_NOTE,
    temperature: answers.Temperature = 0.0,
    rule: answers.Rule = None,
    idle: answers.Idle = "",
    model: drafting.Models = None,
    policy: answers.PolicyName = "stream",
    pace_draft: answers.PaceDraft = 0.0,
    cache_dir: drafting.CacheDir = None,
    *,
    draft_flags: drafting.DraftFlags,
    credentials: connection.Credentials,
) -> None:
    """Answer apps on this machine as OpenAI's API does. Paths are /v1/chat/completions and the like.

    --temperature is for requests that set none."""
    with loading() as loaded:
        import asyncio

        from client.commands.serve import Listening
        from client.commands.serve import serve as serve_command
        from client.endpoint.access_checks import check_origin
        from client.endpoint.answer_parsers.answer_format import find_syntax
        from client.endpoint.service import EndpointDefaults, find_offline_behaviour
        from client.link.offline import OfflineOptions
        from client.text import given_text
        from common.address import parse_address
        from common.rpc.credentials import read_token, warn_of_readable

        access = credentials.access_to(server)
        answer_flags = answers.AnswerFlags(temperature=temperature, rule=rule, idle=idle, policy=policy, seed=0)
        syntax = None if tool_parser is None else find_syntax(tool_parser)
        options, when_offline = answer_flags.options(pace_draft / 1000), find_offline_behaviour(offline)
        defaults = EndpointDefaults(
            options, rule, when_offline, syntax, strict, given_text("--offline-note", offline_note)
        )
        warn_of_readable(api_key_file)
        key = read_token(api_key_file) if api_key_file else None
        origins = tuple(map(check_origin, allow_origin or ()))
        listening = Listening(parse_address(listen), parallel, key, origins)
        offline_options = OfflineOptions(offline_limit, offline_wait)
        choice = draft_flags.choice()
        if CHECK_ONLY in context.meta:
            return
        asyncio.run(serve_command(access, choice, model or (), cache_dir, defaults, offline_options, listening, loaded))


@app.command()
@with_folded_options
def pull(
    server: connection.Server,
    model: drafting.PulledModel = "",
    draft: drafting.Draft = None,
    weights: drafting.WeightsMode = "as-is",
    trust_new: Annotated[
        bool, typer.Option("--trust-new", help="Accept another target or draft model from this server than before.")
    ] = False,
    cache_dir: drafting.CacheDir = None,
    *,
    credentials: connection.Credentials,
) -> None:
    """Fetch what this machine needs for one of a server's models. An interrupted pull is resumed."""
    import asyncio

    from client.commands.pull import pull as pull_command
    from client.drafting.draft_loader import DraftChoice

    choice = DraftChoice(draft, weights=weights, model=model)
    asyncio.run(pull_command(credentials.access_to(server), choice, cache_dir, trust_new=trust_new))


@app.command("list")
def list_bundles(cache_dir: drafting.CacheDir = None, as_json: display.AsJson = False) -> None:
    """Show the draft models that were fetched, each with its target."""
    from client.commands.library import list_bundles as list_command

    list_command(cache_dir, as_json=as_json)


@app.command("rm")
def remove_bundle(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What `outrider list` calls it, its target alone, or an alias.")],
    cache_dir: drafting.CacheDir = None,
) -> None:
    """Remove a draft model that was fetched. Those that a running command uses stay."""
    import asyncio

    from client.commands.library import remove_bundle as remove_command
    from common.programs.configuration import configured_by

    asyncio.run(remove_command(cache_dir, name, configured_by(context).aliases.get(name)))


@app.command()
@with_folded_options
def doctor(
    context: typer.Context,
    server: Annotated[str | None, typer.Option("--server", metavar="HOST:PORT", help="Check this server too.")] = None,
    model: drafting.Model = "",
    draft: drafting.Draft = None,
    device: drafting.Device = "cpu",
    dtype: drafting.Dtype = "float32",
    weights: drafting.WeightsMode = "as-is",
    cache_dir: drafting.CacheDir = None,
    as_json: display.AsJson = False,
    *,
    credentials: connection.Credentials,
) -> None:
    """Check this machine, and a server from here. Says how to fix what is wrong."""
    with ended_at_once(STOPPED):
        import asyncio

        from client.commands.doctor import Choice
        from client.commands.doctor import doctor as doctor_command
        from common.device import device_named

        reach = None if server is None else lambda: credentials.access_to(server)
        choice = Choice(reach, model, draft, device_named(device), dtype, weights, cache_dir)
        is_well = asyncio.run(doctor_command(context, PROGRAM, choice, as_json=as_json))
    if not is_well:
        raise typer.Exit(FAILURE)


@app.command()
def config(
    context: typer.Context, command: Annotated[str | None, typer.Argument(help="Whose options to show.")] = None
) -> None:
    """Show the options that differ from their defaults. Says what set them; with COMMAND all of its options."""
    from common.programs.settings import show_settings

    show_settings(context, PROGRAM, command)


@app.command()
def demo(
    as_json: display.AsJson = False,
    prompts: Annotated[int, typer.Option("--prompts", min=1, help="How many prompts each system answers.")] = 3,
    max_new_tokens: answers.MaxNewTokens = 160,
    profile: Annotated[str, typer.Option("--profile", help="The link; `outrider-lab profiles` lists them.")] = "4g",
    seed: Annotated[int, typer.Option("--seed", help="Chooses the prompts.")] = 0,
    cost_factor: Annotated[
        float,
        typer.Option(
            "--cost-factor", min=1, max=1000, help="The costs of passes and drafts are 30 ms and 5 ms times this."
        ),
    ] = 4.0,
    models: Annotated[
        Path | None, typer.Option("--models", help="A folder with target, draft and prompts.jsonl instead.")
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="Chat in a browser instead, with a switch that cuts the link.")
    ] = False,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="The address of the page.")
    ] = "127.0.0.1:8080",
) -> None:
    """Show the shipped models over an emulated link, beside baselines."""
    import asyncio

    from common.address import parse_address
    from common.programs.extras import require_extra
    from common.protocol.errors import MisuseError

    if page and as_json:
        raise MisuseError("--page shows answers in a browser and prints no JSON; leave one of the two out")
    require_extra("server", "the demo, which starts a server,")
    from client.commands.demo import DemoOptions, demo_page
    from client.commands.demo import demo as demo_command

    if page:
        asyncio.run(demo_page(profile, models, parse_address(listen)))
        return
    options = DemoOptions(prompts, max_new_tokens, profile, seed, cost_factor, models)
    asyncio.run(demo_command(options, as_json=as_json))


def _read_prompt(argument: str, private_file: Path | None) -> str:
    from client.private.spans import as_private, before_private
    from client.text import valid_text
    from common.protocol.errors import MisuseError

    is_typed = sys.stdin.isatty()
    try:
        if argument in ("", "-"):
            prompt = valid_text("" if is_typed and not argument else sys.stdin.read())
        else:
            piped = valid_text(read_beside_prompt() or "").rstrip()
            prompt = "\n\n".join(part for part in (piped, valid_text(argument)) if part)
    except UnicodeError as error:
        raise MisuseError("the prompt is not valid text; give it in UTF-8") from error
    if private_file is not None:
        try:
            prompt = f"{prompt}\n{as_private(private_file.read_text(encoding='utf-8'))}"
        except UnicodeError as error:
            raise MisuseError(f"the private file {private_file} is not valid text; give it in UTF-8") from error
        except OSError as error:
            raise MisuseError(
                f"the private file {private_file} cannot be read; check its name and permissions"
            ) from error
    if not prompt.strip():
        raise MisuseError("there is nothing to ask; give a prompt, or - to read it from standard input")
    before_private(prompt)  # fails now if its spans are invalid
    return prompt


def main() -> NoReturn:
    """Run the command line and exit."""
    # Before torch is imported. Threads must sleep while they wait: on a busy machine spinning ones make a level take a
    # hundred times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # An answer may hold characters that this terminal's encoding lacks.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    run_command_line(app, "outrider", interrupted="stopped")


if __name__ == "__main__":
    main()
