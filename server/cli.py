"""The commands of `outriderd`: options in, one plain sentence and an exit code out.

Heavy imports wait until a command runs, so that `--help` answers at once.
"""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from common.address import parse_address
from common.command_line import run
from common.protocol.errors import MisuseError
from server.options import (
    AccessOptions,
    ServeOptions,
    SessionOptions,
    TargetOptions,
    parse_duration,
)
from server.pace import Pace

app = typer.Typer(
    help="The Outrider server: a large target that decides what small drafts far away propose.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

TargetArgument = Annotated[str, typer.Option(help="A checkpoint's directory, a hub id, or `demo`.")]


@app.command()
def serve(
    target: TargetArgument,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Port 0 picks a free one.")] = "127.0.0.1:7070",
    draft: Annotated[list[str] | None, typer.Option(help="A draft to hand out; may be repeated.")] = None,
    idle: Annotated[
        str, typer.Option(help="auto, assist, eager or patient; as baselines colocated, lockstep.")
    ] = "auto",
    run_ahead: Annotated[int, typer.Option(min=1, help="Tokens past what a client knows; more if it is far.")] = 128,
    pace_pass: Annotated[str, typer.Option(metavar="MS", help="What a pass costs at least.")] = "0",
    pace_token: Annotated[str, typer.Option(metavar="MS", help="What each packed token of a pass costs.")] = "0",
    pace_draft: Annotated[str, typer.Option(metavar="MS", help="What a level costs that is drafted here.")] = "0",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float64, float32, bfloat16 or float16.")] = "float32",
    tls_cert: Annotated[Path | None, typer.Option(help="The server's certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, PEM.")] = None,
    client_ca: Annotated[Path | None, typer.Option(help="Ask clients for a certificate signed by this.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="Ask clients for the bearer token in this file.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow plain text off loopback.")] = False,
    cache_tokens: Annotated[int, typer.Option(min=1, help="Tokens of K/V for all sessions together.")] = 32768,
    pass_tokens: Annotated[int, typer.Option(min=4, help="Tokens of one pass.")] = 512,
    max_sessions: Annotated[int, typer.Option(min=1)] = 64,
    lease: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="A session waits so long for a client that is gone.")
    ] = 120.0,
    threads: Annotated[int, typer.Option(min=0, help="Of torch; 0 leaves it to torch.")] = 0,
    drain_seconds: Annotated[float, typer.Option(min=0, help="For running answers, once asked to stop.")] = 30.0,
) -> None:
    """Serve a target until SIGTERM or SIGINT; a second signal ends at once."""
    options = ServeOptions(
        target=TargetOptions(target, tuple(draft or ()), device, dtype, threads, cache_tokens),
        sessions=SessionOptions(
            check_idle(idle),
            run_ahead,
            pass_tokens,
            max_sessions,
            Pace(parse_duration(pace_pass), parse_duration(pace_token), parse_duration(pace_draft)),
            lease,
        ),
        access=AccessOptions(parse_address(listen), tls_cert, tls_key, client_ca, token_file, insecure),
        drain_seconds=drain_seconds,
    )
    from server import daemon

    daemon.serve(options)


@app.command()
def bundle(
    target: TargetArgument,
    draft: Annotated[str, typer.Option(help="A draft's directory or hub id, or `lookup`.")],
    out: Annotated[Path, typer.Option(help="The directory to write; it must not hold anything.")],
) -> None:
    """Write a client bundle as a directory."""
    from server.bundles import write_bundle
    from server.offer import make_offer

    offer = make_offer(target, () if draft == "lookup" else (draft,))
    write_bundle(offer.lookup if draft == "lookup" else offer.drafts[0], offer.card, out)


def check_idle(name: str) -> str:
    """Raises MisuseError for a name that no idle policy has."""
    from common.protocol.idle import IDLE_POLICIES

    if name not in IDLE_POLICIES:
        raise MisuseError(f"the idle policy '{name}' is unknown; use one of: {', '.join(IDLE_POLICIES)}")
    return name


def main() -> NoReturn:
    """Run the command line and exit."""
    run(app, "outriderd")


if __name__ == "__main__":
    main()
