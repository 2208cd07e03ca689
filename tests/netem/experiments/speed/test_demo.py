"""What `outrider demo` shows, computed on the virtual clock and read as the demo reads it."""

import json

import pytest

from client.demo.comparison import compare, is_identical
from client.demo.systems_under_test import SYSTEMS
from client.demo.virtual import read_run
from common.stated_costs import STATED
from netem.experiments.speed.demo import compare_virtually
from netem.links.profiles import find_profile
from tests.netem.experiments.one_device.folder import make_folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("family"))


def test_every_system_answers_alike_and_the_figures_come_again(models, tmp_path):
    told = [compare_virtually(models, find_profile("4g"), 2, 8, 0, STATED.times(4)) for _ in range(2)]
    assert json.dumps(told[0]) == json.dumps(told[1])
    (tmp_path / "out").write_text(json.dumps(told[0]))
    run = read_run(tmp_path / "out")
    assert list(run.answers) == list(SYSTEMS)
    assert is_identical(run.answers.values())
    assert all(len(answers) == 2 for answers in run.answers.values())
    comparison = compare(run.answers, run.counters)
    assert comparison.overruns == []
    assert run.answers["outrider"][0].stats.draft == "moa"
    assert run.stated_costs["pass_ms"] == 120
    assert all(answer.stats.seconds > answer.stats.passes * 0.120 for answer in run.answers["cloud"])
