"""`outrider-lab trace`: a profile as trace files."""

from pathlib import Path

from netem.links.generate import traces_of
from netem.links.mahimahi import write_traces
from netem.links.profile import LinkProfile


def write_profile_traces(profile: LinkProfile, seconds: int, drive_seed: int | None, out: Path) -> None:
    """drive_seed: let the rate wander as on a drive."""
    write_traces(out, *traces_of(profile, seconds, drive_seed))
