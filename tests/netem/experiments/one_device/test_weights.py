"""`weights`: ratios against the weights as they are, on the same prompts; and the measurement of a client's half."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from common.draft_kinds import DRAFT_KINDS
from common.weight_only.files import mode_of
from common.weight_only.modes import AS_IS, INT4, INT8, MODES
from netem.experiments.one_device import client_half
from netem.experiments.one_device.bench import TimedRounds
from netem.experiments.one_device.client_half import LEVEL_NODES, measure_client_half
from netem.experiments.one_device.compared_drafts import ComparedDraft
from netem.experiments.one_device.dimensions import TargetDimensions, default_config
from netem.experiments.one_device.random_bundle import write_random_bundle
from netem.experiments.one_device.weights import make_report, make_rows, measure

DRAFT = ComparedDraft("moa", DRAFT_KINDS["moa"], Path("moa"))
SMALL = TargetDimensions("small", 64, 4, 4, 2, 16, 512, 300)


def answers(tokens: int, passes: int) -> dict[str, list[TimedRounds]]:
    rounds = SimpleNamespace(tokens=(0,) * (tokens + 1), passes=passes + 1)
    return {"code": [TimedRounds(rounds, 1.0)] * 2}  # type: ignore[arg-type]


def test_a_mode_is_judged_against_the_weights_as_they_are() -> None:
    given = {(DRAFT, AS_IS): answers(40, 10), (DRAFT, INT8): answers(40, 10), (DRAFT, INT4): answers(40, 16)}
    rows = make_rows(given, seed=0)
    assert [(row.weights, row.accept.value, row.ratio.value) for row in rows] == [
        (AS_IS, 4.0, 1.0),
        (INT8, 4.0, 1.0),
        (INT4, 2.5, 0.625),
    ]
    report = make_report(rows, {"code": 2}, 40)
    assert report.faults == ["int4 keeps 0.625 of the accept length"]
    assert report.results["mean_ratio"] == {INT8: 1.0, INT4: 0.625}


async def test_a_quick_run_has_a_row_for_each_draft_and_mode(request_for) -> None:
    report = await measure(request_for("moa"), lambda doing, share: None)
    modes = [row[1] for row in report.rows]
    assert modes == list(MODES) * (len(modes) // len(MODES))
    assert {row[-1] for row in report.rows} == {"0"}


@pytest.mark.parametrize("mode", MODES)
def test_a_random_bundle_is_measured_in_a_process_of_its_own(tmp_path: Path, mode: str) -> None:
    write_random_bundle(SMALL, default_config(SMALL, (0,)), 0, mode, tmp_path / "plain", tmp_path / mode)
    bundle = tmp_path / ("plain" if mode == AS_IS else mode)
    assert mode_of(bundle / "tail" / "model.safetensors") == (None if mode == AS_IS else mode)
    half = measure_client_half(bundle, "moa", 0, context=256, vocabulary=SMALL.vocabulary)
    assert half.most_bytes >= half.loaded_bytes
    assert set(half.level_s) == set(half.level_cpu_s) == set(LEVEL_NODES)
    assert min(half.level_cpu_s.values()) > 0


def test_what_the_process_said_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"could not be measured: (.|\n)*Error"):
        client_half.measure_client_half(tmp_path, "moa", 0, context=256, vocabulary=300)
