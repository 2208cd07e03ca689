"""A link profile as JSON and back, for another process. Knows the fields of profiles and nothing else."""

import json
from dataclasses import asdict
from typing import Any

from netem.links.burst_loss import Bursts
from netem.links.outages import Outages
from netem.links.profile import Direction, LinkProfile
from netem.links.trace import Trace


def to_json(profile: LinkProfile) -> str:
    """One line."""
    return json.dumps(asdict(profile))


def from_json(text: str) -> LinkProfile:
    """The profile of which `to_json` made the text."""
    fields = json.loads(text)
    gaps = tuple((start_s, end_s) for start_s, end_s in fields["outages"]["gaps"])
    return LinkProfile(
        **{
            **fields,
            "up": _direction(fields["up"]),
            "down": _direction(fields["down"]),
            "outages": Outages(gaps, fields["outages"]["period_s"]),
        }
    )


def _direction(fields: dict[str, Any]) -> Direction:
    bursts, trace = fields["bursts"], fields["trace"]
    return Direction(
        **{
            **fields,
            "bursts": bursts and Bursts(**bursts),
            "trace": trace and Trace(tuple(trace["opportunities_ms"])),
        }
    )
