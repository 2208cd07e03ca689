"""Trace files in Mahimahi's format: one whole millisecond per line. Reads and writes them; replays nothing.

A link has two, up.trace and down.trace where we write them.
"""

from dataclasses import replace
from pathlib import Path

from common.protocol.errors import MisuseError
from netem.links.errors import LinkFailureError
from netem.links.profile import Direction, LinkProfile
from netem.links.trace import MOST_MS, Trace

UP_FILE = "up.trace"
DOWN_FILE = "down.trace"


def parse_trace(text: str, source: str) -> Trace:
    """Reads the lines of a trace; source names it in errors. Raises MisuseError with the line that is wrong."""
    moments: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not (entry.isascii() and entry.isdigit()):
            raise MisuseError(f"line {number} of {source} is no whole number of milliseconds: write one per line")
        if len(entry.lstrip("0")) > len(str(MOST_MS)):  # also more digits than Python would read
            raise MisuseError(f"line {number} of {source} is more than {MOST_MS:,} ms: give a shorter trace")
        moment = int(entry.lstrip("0") or "0")
        if moments and moment < moments[-1]:
            raise MisuseError(f"line {number} of {source} goes back from {moments[-1]} to {moment} ms: sort the lines")
        moments.append(moment)
    if not moments or moments[-1] == 0:
        raise MisuseError(f"{source} has no opportunity after millisecond 0: give a longer trace")
    return Trace(tuple(moments))


def read_trace(path: Path) -> Trace:
    """Raises MisuseError where there is no such file, or no trace in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MisuseError(f"{path} cannot be read as a trace: give a file with one millisecond per line") from error
    return parse_trace(text, str(path))


def format_trace(trace: Trace) -> str:
    return "".join(f"{moment}\n" for moment in trace.opportunities_ms)


def make_folder(folder: Path) -> None:
    """Makes a folder for traces. Raises LinkFailureError where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as refusal:
        raise _refused(folder, refusal) from refusal


def write_traces(folder: Path, up: Trace, down: Trace) -> None:
    """Writes both files. Raises LinkFailureError where that is refused."""
    make_folder(folder)
    try:
        (folder / UP_FILE).write_text(format_trace(up), encoding="utf-8")
        (folder / DOWN_FILE).write_text(format_trace(down), encoding="utf-8")
    except OSError as refusal:
        raise _refused(folder, refusal) from refusal


def _refused(folder: Path, refusal: OSError) -> LinkFailureError:
    return LinkFailureError(f"cannot write traces to {folder} ({refusal.strerror}): choose another")


def with_traces(profile: LinkProfile, up: Path | None, down: Path | None) -> LinkProfile:
    """The profile with the rates of trace files in place of its own; None keeps the profile's. Raises MisuseError where
    a file is no trace."""

    def traced(direction: Direction, path: Path | None) -> Direction:
        return direction if path is None else replace(direction, rate_bits_per_s=None, trace=read_trace(path))

    return replace(profile, up=traced(profile.up, up), down=traced(profile.down, down))
