"""client.drafting.fastest_draft: which draft model `auto` stands for, by link, machine and what was measured."""

import math
from dataclasses import replace

import pytest

from client.cache.level_times import LevelTimes
from client.drafting.draft_loader import AUTO, DraftChoice, DraftLoader
from client.drafting.fastest_draft import settle
from client.drafting.needed_memory import TooLargeError
from client.errors import BundleError
from common.bundle import make_manifest
from common.draft_models.measured_acceptance import MeasuredAcceptance, write_measured_acceptance

CHOICE = DraftChoice(AUTO, layers=None)
SURE, DEEP, GUESSING = MeasuredAcceptance(5.0, 1.85), MeasuredAcceptance(6.0, 1.93), MeasuredAcceptance(4.0, 3.2)
SECONDS = {("sure", 0): 0.005, ("sure", 3): 0.02, ("guessing", 0): 0.006}


@pytest.fixture
def loaders(tmp_path, monkeypatch):
    """Loaders at a round trip, on a machine that is so many times as slow; they note what they time."""
    timed: list[tuple[str, int]] = []
    for name, worth in (("sure", {0: SURE, 3: DEEP}), ("guessing", {0: GUESSING}), ("unmeasured", {})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        write_measured_acceptance(tmp_path / name, worth)

    def make(round_trip: float, slower: float = 1.0, choice: DraftChoice = CHOICE) -> list[DraftLoader]:
        def time_level(loader: DraftLoader, layers: int) -> float:
            timed.append((loader.manifest.draft, layers))
            return slower * SECONDS[timed[-1]]

        monkeypatch.setattr(DraftLoader, "time_level", time_level)
        return [
            DraftLoader(
                tmp_path / name, make_manifest(name, "moa", "f", []), replace(choice, draft=name), 64, 300, round_trip
            )
            for name in ("sure", "guessing", "unmeasured")
        ]

    make.timed = timed
    return make


@pytest.fixture
def times(tmp_path):
    return LevelTimes(tmp_path)


def test_guesses_help_a_slow_machine_and_sureness_a_long_link(loaders, times, tmp_path):
    assert settle(CHOICE, loaders(0.6), times) == DraftChoice("sure+lookup", layers=None)
    (tmp_path / "level-times.json").unlink()
    # Where no layer of the target runs, the draft that can run some stands in.
    guessing = DraftChoice("guessing+lookup", layers=None, stand_in="sure")
    assert settle(CHOICE, loaders(0.02, slower=20.0), times) == guessing


def test_of_several_the_one_that_runs_most_layers_stands_in(loaders, times, tmp_path, monkeypatch):
    monkeypatch.setitem(SECONDS, ("unmeasured", 5), 0.5)
    write_measured_acceptance(tmp_path / "unmeasured", {5: DEEP})
    assert settle(CHOICE, loaders(0.02, slower=20.0), times).stand_in == "unmeasured"


def test_for_one_that_needs_no_draft_state_nothing_stands_in(loaders, times):
    reading = [
        replace(each, manifest=replace(each.manifest, kind="independent"))
        if each.manifest.draft == "guessing"
        else each
        for each in loaders(0.02, slower=20.0)
    ]
    assert settle(CHOICE, reading, times) == DraftChoice("guessing+lookup", layers=None)


def test_a_depth_that_was_chosen_is_kept_and_others_are_not_tried(loaders, times):
    choice = replace(CHOICE, layers=0)
    assert settle(choice, loaders(0.6, choice=choice), times) == DraftChoice("sure+lookup", layers=0)
    assert loaders.timed == [("sure", 0), ("guessing", 0)]


def test_where_layers_were_chosen_nothing_stands_in(loaders, times):
    choice = replace(CHOICE, layers=0)
    made = loaders(0.02, slower=20.0, choice=choice)
    assert settle(choice, made, times) == DraftChoice("guessing+lookup", layers=0)


def test_a_machine_times_its_drafts_once(loaders, times):
    first = settle(CHOICE, loaders(0.6), times)
    count = len(loaders.timed)
    assert settle(CHOICE, loaders(0.6), times) == first
    assert len(loaders.timed) == count == 3


def test_where_the_server_is_out_of_reach_a_miss_is_as_far_as_can_be(loaders, times):
    assert settle(CHOICE, loaders(float("inf")), times).draft == "sure+lookup"


def test_what_does_not_fit_into_memory_is_left_out(loaders, times, monkeypatch):
    made = loaders(0.6)
    time_level = DraftLoader.time_level

    def with_little_room(loader, layers):
        if loader.manifest.draft == "sure":
            raise TooLargeError("no room")
        return time_level(loader, layers)

    monkeypatch.setattr(DraftLoader, "time_level", with_little_room)
    assert settle(CHOICE, made, times).draft == "guessing+lookup"


def test_what_cannot_be_timed_is_left_out_and_not_tried_again(loaders, times, monkeypatch):
    made = loaders(0.6)
    monkeypatch.setitem(SECONDS, ("sure", 0), math.inf)
    monkeypatch.setitem(SECONDS, ("sure", 3), math.inf)
    for _ in range(2):
        assert settle(CHOICE, made, times).draft == "guessing+lookup"
    assert len(loaders.timed) == 3
    assert settle(CHOICE, made[:1], times) == replace(CHOICE, draft=None)


def test_where_nobody_measured_any_the_servers_first_is_taken(loaders, times):
    assert settle(CHOICE, loaders(0.1)[2:], times) == replace(CHOICE, draft=None)
    assert settle(CHOICE, [], times) == replace(CHOICE, draft=None)


def test_a_bundle_with_impossible_figures_is_its_servers_fault(loaders, times, tmp_path):
    (tmp_path / "guessing" / "config.json").write_text('{"accept_lengths": {"0": -1}}')
    with pytest.raises(BundleError, match="broken 'accept_lengths'"):
        settle(CHOICE, loaders(0.1), times)


FAR = replace(SURE, long_rounds=(40.0, 40.0))


def test_how_far_drafts_come_decides_where_it_was_measured_of_all(loaders, times, tmp_path):
    """By rounds of six levels `sure` is better; in long ones `guessing` comes further."""
    write_measured_acceptance(tmp_path / "guessing", {0: replace(GUESSING, long_rounds=(60.0, 60.0))})
    assert settle(CHOICE, loaders(0.6), times).draft == "sure+lookup"
    write_measured_acceptance(tmp_path / "sure", {0: FAR, 3: FAR})
    assert settle(CHOICE, loaders(0.6), times).draft == "guessing+lookup"
