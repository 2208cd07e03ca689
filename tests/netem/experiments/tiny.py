"""An experiment that takes no time, for tests of how experiments are run. It says what it was asked."""

from pathlib import Path

from netem.experiments.experiment import Advance, Report, Request
from tests.families import make_checkpoint

RAINY_SEED = 13


async def measure(request: Request, advance: Advance) -> Report:
    advance("measuring", 0.5)
    return Report(
        title="A tiny experiment",
        headings=("seed", "drafts", "targets"),
        rows=[[str(request.seed), " ".join(request.drafts), " ".join(request.targets)]],
        remarks=(),
        results={"quick": request.quick},
        draw=lambda axes: axes.plot([0, 1], [0, 1]),
        faults=["it rained"] if request.seed == RAINY_SEED else [],
    )


def models(request: Request) -> dict[str, Path]:
    assert request.models is not None
    return {"target": make_checkpoint(request.models / "target", "llama")}
