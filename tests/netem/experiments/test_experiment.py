import importlib
from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from netem.experiments.catalogue import EXPERIMENTS, find_experiment
from netem.experiments.experiment import Request


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_run_by_its_name(name):
    assert callable(importlib.import_module(find_experiment(name).module).measure)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_plot(name):
    assert callable(find_experiment(name).draw())


def test_an_unknown_experiment_is_answered_with_the_nearest():
    with pytest.raises(MisuseError, match="did you mean streaming"):
        find_experiment("streeming")


@pytest.mark.parametrize(
    ("request_", "unread"),
    [
        (Request(0, quick=True, drafts=("block",)), "--draft"),
        (Request(0, quick=True, device="cuda"), "--device"),
        (Request(0, quick=True, data=Path("data"), apps=(Path("apps"),)), "--data, --apps"),
    ],
)
def test_an_option_that_an_experiment_does_not_read_is_refused(request_, unread):
    with pytest.raises(MisuseError, match=f"^the experiment 'network' does not read {unread}; it reads --models$"):
        find_experiment("network").check_options(request_)
    with pytest.raises(MisuseError, match=f"^the experiment 'law' does not read {unread}; leave it out$"):
        find_experiment("law").check_options(request_)


def test_an_option_that_an_experiment_reads_is_not():
    find_experiment("sizes").check_options(Request(0, quick=True, drafts=("moa",), targets=("one",), device="cuda"))
