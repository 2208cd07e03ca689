"""`outrider-lab calibrate`: the measured properties of a link beside those of its profile, as a table or as JSON."""

import json

import typer
from rich.table import Table

from common.programs.console import PlainConsole
from netem.links.backends import choose_backend
from netem.links.calibrating.calibrate import calibrate
from netem.links.calibrating.calibration import Calibration, DirectionMeasured
from netem.links.profile import LinkProfile

_MEGABIT = 1e6


async def show_calibration(
    profile: LinkProfile, backend: str, congestion: str | None, quick: bool, as_json: bool
) -> bool:
    """Measures and prints. Returns whether the link is within the tolerance of its profile."""
    measured = await calibrate(profile, await choose_backend(backend), congestion=congestion, quick=quick)
    if as_json:
        typer.echo(json.dumps(measured.as_dict()))
    else:
        _print(measured)
    return not measured.faults()


def _print(measured: Calibration) -> None:
    trips = measured.rtt
    table = Table("", "measured", "promised", title=f"{measured.profile} by {measured.backend}")
    table.add_row("round trip, median", f"{trips.p50_ms:.1f} ms", f"{measured.nominal_rtt_ms:.1f} ms")
    table.add_row("round trip, p5 to p95", f"{trips.p5_ms:.1f} to {trips.p95_ms:.1f} ms")
    for name, way in (("up", measured.up), ("down", measured.down)):
        table.add_row(f"rate {name}", _rate(way.rate), _rate(way.nominal_rate))
        table.add_row(f"TCP goodput {name}", _rate(way.tcp_goodput))
        table.add_row(f"loss {name}", *_losses(way))
    if measured.congestion:
        table.add_row("congestion control", measured.congestion)
    if measured.late_packets is not None:
        table.add_row("packets over 1 ms late", str(measured.late_packets))
    PlainConsole().print(table)
    for fault in measured.faults():
        typer.echo(fault, err=True)


def _rate(bits_per_s: float | None) -> str:
    return "any" if bits_per_s is None else f"{bits_per_s / _MEGABIT:.2f} Mbit/s"


def _losses(way: DirectionMeasured) -> tuple[str, str]:
    return "as stalls" if way.loss is None else f"{way.loss:.2%}", f"{way.nominal_loss:.2%}"
