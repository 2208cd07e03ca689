"""Runs an experiment as a person would, on tiny models, and checks what every report must have."""

import json
from types import ModuleType

from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import Report, Request
from netem.experiments.one_device.bench import Tree
from netem.plots.picture import draw_picture
from tests.netem.plots.sound import assert_sound

SMALL_TREE = Tree(2, 2, 4)
"""Where a test needs trees, and not those of a paper."""


async def run_quick(module: ModuleType, request: Request) -> Report:
    shares = []
    report = await module.measure(request, lambda doing, share: shares.append(share))
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    (name,) = (each.name for each in EXPERIMENTS.values() if each.module == module.__name__)
    check(name, report)
    return report


def check(name: str, report: Report) -> None:
    """The report of the experiment `name` can be written, and its plot shows what is written."""
    assert report.rows
    assert all(len(row) == len(report.headings) for row in report.rows)
    assert all(remark.strip() for remark in report.remarks)
    written = json.loads(json.dumps(report.results, allow_nan=False))
    assert_sound(draw_picture(EXPERIMENTS[name].draw(), written, report.faults))
