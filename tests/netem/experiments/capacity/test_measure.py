import pytest

from netem.experiments.capacity.measure import EAGER, LINKS, PLAIN, by_turns, run_systems
from netem.experiments.capacity.report import ALL_LINKS, BATCHED, Capacity, Checked, make_report, most
from netem.experiments.steps import Steps
from tests.netem.experiments.capacity.recordings import PREDICTABLE
from tests.netem.experiments.one_device.running import check


@pytest.fixture(scope="module")
def runs():
    return run_systems(PREDICTABLE, {PLAIN: {5: 0.3, 10: 0.3}, EAGER: {5: 0.3}}, lambda doing, share: None, Steps())


def report(runs, ratio=1.0):
    return make_report(Capacity(PREDICTABLE, 40, [Checked("eager", 2, 50.0, 50.0 * ratio)], runs, LINKS, 0))


def test_every_system_has_rows_for_every_link_and_for_fleets(runs):
    made = report(runs)
    check("capacity", made)
    assert made.faults == []
    rows = made.results["rows"]
    alone = {(row["system"], row["clients"], row["link"]) for row in rows if row["asking"] == "always"}
    assert {link for system, _, link in alone if system == PLAIN.name} == {ALL_LINKS, *LINKS}
    assert {system for system, *_ in alone} == {PLAIN.name, EAGER.name, BATCHED}
    fleet = [row for row in rows if row["asking"] != "always"]
    assert {row["replicas"] for row in fleet} == {1, 2, 4, 8, 16, 32, 64}
    # Five clients at once were measured with eager, and more than that ask in the busiest hour.
    assert [row["tokens_s_client"] for row in fleet if row["system"] == EAGER.name and row["replicas"] == 1] == [
        None
    ] * 2
    for row in rows:
        assert {"clients", "replicas", "system", "server_drafting", "tokens_s_client", "gap_p95_ms", "link"} <= {*row}


def test_prompts_come_by_turns_though_a_category_has_fewer():
    assert by_turns({"code": [1, 2, 3], "math": [4], "chat": [5, 6]}) == [1, 4, 5, 2, 6, 3]


@pytest.mark.parametrize(("ratio", "valid"), [(0.91, True), (1.09, True), (0.89, False), (1.11, False)])
def test_a_simulation_that_disagrees_with_the_models_is_not_valid(runs, ratio, valid):
    assert (report(runs, ratio).faults == []) == valid


def test_most_clients_are_found_between_measured_numbers():
    assert most({4: 60.0, 8: 40.0, 16: 10.0}, 50.0) == (6.0, False)
    assert most({4: 60.0, 8: 50.0}, 50.0) == (8.0, True)
    assert most({4: 40.0, 8: 30.0}, 50.0) == (0.0, False)
    assert most({}, 50.0) is None
