"""`outrider-lab profiles`: prints the table of link profiles."""

from collections.abc import Callable

import typer

from common.programs.console import PlainConsole
from common.programs.fitted_table import fitted_table
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.profiles import PROFILES

# The width where the output is no terminal.
_COLUMNS = 100


def show_profiles() -> None:
    """Prints one row for each profile; up and down have a line each where they differ."""
    headings = ("profile", "Mbit/s", "one way, ms", "loss", "queue", "what it is")
    rows = [
        (
            profile.name,
            _both(profile, _rate),
            _both(profile, _delay),
            _both(profile, _loss),
            _both(profile, _queue),
            profile.description + _outages(profile.outages),
        )
        for profile in PROFILES.values()
    ]
    console = PlainConsole()
    typer.echo("\n".join(fitted_table(headings, rows, console.width if console.is_terminal else _COLUMNS)))


def _both(profile: LinkProfile, in_words: Callable[[Direction], str]) -> str:
    up, down = in_words(profile.up), in_words(profile.down)
    return up if up == down else f"{up} up\n{down} down"


def _rate(way: Direction) -> str:
    return "any" if way.mean_rate_bits_per_s is None else f"{way.mean_rate_bits_per_s / 1e6:g}"


def _delay(way: Direction) -> str:
    return f"{way.delay_ms:g}" + (f"±{way.jitter_ms:.3g}" if way.jitter_ms else "")


def _loss(way: Direction) -> str:
    if not way.mean_loss:
        return "0"
    return f"{100 * way.mean_loss:.2g}%" + (" bursty" if way.bursts else "")


def _queue(way: Direction) -> str:
    return "any" if way.queue_bytes is None else f"{way.queue_bytes / 1000:.0f} kB"


def _outages(outages: Outages) -> str:
    if not outages.gaps:
        return ""
    lengths_s = [end - start for start, end in outages.gaps]
    shortest, longest = min(lengths_s), max(lengths_s)
    length = f"{longest:g} s" if shortest == longest else f"{shortest * 1000:.0f}-{longest * 1000:.0f} ms"
    every = f" every {outages.period_s / len(outages.gaps):.0f} s" if outages.period_s else ""
    return f", gone for {length}{every}"
