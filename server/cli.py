"""The commands of `outriderd`: options in, one plain sentence and an exit code out.

Heavy imports wait until a command runs, so that `--help` answers at once.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from common.draft_kinds import LOOKUP
from common.programs.command_line import FAILURE, Version, new_app, run
from common.programs.configuration import ConfigFile, Program, configure, user_file
from common.programs.extras import require_extra
from common.programs.folded_options import with_folded_options
from common.programs.interruption import ended_at_once
from server.cli_options import (
    AccessFlags,
    CheckedTargetsFlags,
    FleetFlags,
    ReplicasFlags,
    ReportFlags,
    SessionFlags,
    Target,
    TargetsFlags,
)
from server.options import ServeOptions, TargetOptions

app = new_app(
    "The Outrider server: it runs large target models, which verify what draft models on clients propose.",
    "Every option may also stand in a configuration file, or in the environment: OUTRIDERD_CACHE_TOKENS is "
    "--cache-tokens. `outriderd config` shows their values.",
)

drafts = new_app("Look at draft models.", add_completion=False)
app.add_typer(drafts, name="drafts")

PROGRAM = Program(
    "outriderd", (user_file("outriderd.toml"), Path("/etc/outrider/outriderd.toml")), frozenset({"doctor"})
)

_STOPPED = "outriderd: stopped"


@app.callback()
def configured(context: typer.Context, config: ConfigFile = None, version: Version = False) -> None:
    configure(context, PROGRAM, config)


@app.command()
@with_folded_options
def serve(
    *,
    target_flags: TargetsFlags,
    session_flags: SessionFlags,
    access_flags: AccessFlags,
    fleet_flags: FleetFlags,
    report_flags: ReportFlags,
) -> None:
    """Serve one target or several until SIGTERM or SIGINT. A second signal ends at once."""
    access = access_flags.options()
    options = ServeOptions(
        target_flags.options(),
        session_flags.options(),
        access,
        session_flags.drain_seconds,
        report_flags.options(),
        fleet_flags.options(access.listen),
    )
    require_extra("server", "serving")
    if options.fleet.store is not None:
        require_extra("store", "--fleet-store")
    with ended_at_once(_STOPPED):  # until the daemon has something to end in good order
        if options.target.rank_info.rank:
            from server.ranks.follower import follow

            follow(options.target.rank_info, options.target.device)
        checkpoints = _check_target(options.target)
        if sys.stderr.isatty():
            typer.echo(f"loading {', '.join(checkpoints)} ...", err=True)
        from server import daemon

        daemon.serve(options)


@app.command()
@with_folded_options
def fleet(
    context: typer.Context,
    *,
    replica_flags: ReplicasFlags,
    target_flags: TargetsFlags,
    session_flags: SessionFlags,
    access_flags: AccessFlags,
    fleet_flags: FleetFlags,
    report_flags: ReportFlags,
) -> None:
    """Serve with several replicas as Ray actors until SIGTERM or SIGINT. SIGHUP replaces them, one after another.

    Options are those of `serve`, for each replica. The first listens at --listen and each further one at the next port;
    --metrics shows all of them, with their health."""
    from server.supervisor.options import supervisor_options

    options = supervisor_options(
        context, replica_flags, target_flags, session_flags, access_flags, fleet_flags, report_flags
    )
    require_extra("fleet", "a fleet")
    with ended_at_once(_STOPPED):
        _check_target(target_flags.options())
        from server.supervisor import command

        command.run(options)


@app.command()
def health(
    context: typer.Context,
    address: Annotated[
        str | None, typer.Argument(metavar="HOST:PORT", help="Where a server listens; by default where `serve` does.")
    ] = None,
    tls_ca: Annotated[Path | None, typer.Option(help="Speak TLS, trusting this authority (PEM).")] = None,
    tls_name: Annotated[str | None, typer.Option(help="The name that its certificate has, if not HOST.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="A client's certificate, if one is asked for (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of --tls-cert (PEM).")] = None,
) -> None:
    """Say whether a server takes new sessions. Exits with 1 if it does not."""
    import asyncio

    from common.address import parse_address, parse_destination
    from common.programs.settings import value_of
    from common.rpc.credentials import ClientTls
    from server.observe.health import is_serving

    tls = ClientTls(tls_ca, tls_cert, tls_key) if tls_ca or tls_cert or tls_key else None
    server = parse_destination(address) if address else parse_address(value_of(context, "serve", "listen")).dial_address
    serving = asyncio.run(is_serving(server, tls, tls_name))
    typer.echo("serving" if serving else "draining")
    if not serving:
        raise typer.Exit(FAILURE)


@app.command()
def bundle(
    target: Target,
    draft: Annotated[str, typer.Option(help="A draft model's directory or hub id, or `lookup`.")],
    out: Annotated[Path, typer.Option(help="The directory to write; it must not hold anything.")],
) -> None:
    """Write a client bundle as a directory."""
    drafts = _check_names([target], [] if draft == LOOKUP else [draft])
    from server.models.bundles import write_bundle
    from server.models.offer import make_offer

    offer = make_offer(target, drafts)
    write_bundle(offer.drafts[0] if drafts else offer.lookup, offer.card, out)


@drafts.command("inspect")
def inspect_draft(
    draft: Annotated[str, typer.Argument(metavar="DIR", help="A draft model's directory or hub id.")],
    target: Annotated[str | None, typer.Option(help="A target; say whether the draft model fits it.")] = None,
    tensors: Annotated[bool, typer.Option("--tensors", help="List every tensor with its shape.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what a draft model's directory holds, and for which target.

    Exits with 1 if it does not fit --target.
    """
    from common.models.shipped import draft_checkpoint
    from common.models.source import checkpoint_directory

    draft = draft_checkpoint(draft, [] if target is None else [target])
    # What is not there is told before seconds go by that it takes to import what would read it.
    checkpoint_directory(draft, with_weights=False)
    from common.programs.findings import is_well, show
    from server.models.bundles import checkpoint_name
    from server.models.inspect import describe_draft, describe_fit
    from server.models.inspect import inspect_draft as inspect

    findings = describe_draft(checkpoint_name(draft), inspect(draft), with_tensors=tensors)
    if target is not None:
        findings.append(describe_fit(draft, target))
    show(findings, as_json=as_json)
    if not is_well(findings):
        raise typer.Exit(FAILURE)


@app.command()
def certs(
    out: Annotated[Path, typer.Option(help="The directory for keys and certificates.")],
    host: Annotated[
        list[str] | None, typer.Option(help="A name or an IP address that clients dial; may be repeated.")
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option(help="A client to make a certificate for; may be repeated.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="For which they are valid.")] = 365,
) -> None:
    """Make certificates for a private set-up. They are an authority's, a server's and its clients'.

    Later on, with the same --out, the same authority signs more."""
    from datetime import UTC, datetime

    from server.security.certificates import issue
    from server.security.certificates_advice import advice

    hosts = tuple(host or ())
    typer.echo(advice(issue(out, hosts, tuple(client or ()), days, datetime.now(UTC)), hosts))


@app.command()
@with_folded_options
def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    *,
    target_flags: CheckedTargetsFlags,
    access_flags: AccessFlags,
) -> None:
    """Check this machine, the target, its drafts, and who may connect. Says how to fix what is wrong."""
    with ended_at_once(_STOPPED):
        import asyncio

        from server.doctor import doctor as doctor_command

        is_well = asyncio.run(
            doctor_command(context, PROGRAM, target_flags.options(), access_flags.options, as_json=as_json)
        )
    if not is_well:
        raise typer.Exit(FAILURE)


@app.command()
def config(
    context: typer.Context, command: Annotated[str | None, typer.Argument(help="Whose options to show.")] = None
) -> None:
    """Show the options that differ from their defaults. Says what set them; with COMMAND all of its options."""
    from common.programs.settings import show_settings

    show_settings(context, PROGRAM, command)


def _check_target(options: TargetOptions) -> list[str]:
    """The targets' checkpoints. Raises CheckpointError as `_check_names`, and for what weights cannot be quantised
    to."""
    from common.models.source import check_quantise

    check_quantise(options.quantise)
    checkpoints = [target.checkpoint for target in options.targets]
    _check_names(checkpoints, options.drafts)
    return checkpoints


def _check_names(targets: Sequence[str], drafts: Sequence[str]) -> tuple[str, ...]:
    """The drafts' directories or hub ids. Raises CheckpointError for what is not there, before seconds go by that it
    takes to import what would use it."""
    from common.models.shipped import draft_checkpoint, shipped_family
    from common.models.source import check_target, checkpoint_directory

    for target in targets:
        family = shipped_family(target)
        check_target(family.target if family else target)
    found = tuple(draft_checkpoint(draft, targets) for draft in drafts)
    for draft in found:
        checkpoint_directory(draft, with_weights=False)
    return found


def main() -> NoReturn:
    """Run the command line and exit."""
    run(app, "outriderd")


if __name__ == "__main__":
    main()
