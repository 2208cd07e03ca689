"""Which depth of a draft runs here when nobody chooses: by what was measured of it, the link and the machine."""

from pathlib import Path
from typing import Any

import pytest

from client.assembly import Client, DraftChoice
from common.bundle import TAIL_FOLDER, make_manifest
from common.drafters.drafter import Drafter
from common.drafts.directory import note_accept_lengths, read_accept_lengths
from common.drafts.tail import write_tail
from common.models.errors import CheckpointError
from common.rpc.description import ServerDescription
from tests.drafts import make_eagle_draft, make_moa_draft
from tests.families import make_checkpoint

ANY = DraftChoice(layers=None)


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("target"), "llama")


@pytest.fixture
def bundle(tmp_path, target) -> Path:
    """Of a moa draft that runs 0, 1 or 3 layers."""
    directory = make_moa_draft(tmp_path / "bundle", target)
    write_tail(target, 3, directory / TAIL_FOLDER)
    return directory


@pytest.fixture
def timed(monkeypatch) -> list[Drafter]:
    """Those that were timed; a level takes 5 ms, and 4 ms more for each layer of the target."""
    drafters = []

    def level_seconds(drafter, clock):
        drafters.append(drafter)
        return 0.005 + 0.004 * drafter.state.layers

    monkeypatch.setattr("client.level_time.level_seconds", level_seconds)
    return drafters


def client(bundle: Path, kind: str = "moa", round_trip: float = 0.05) -> Client:
    nothing: Any = None
    described = ServerDescription(1, "0.1", "model", "f", 300, 400, 64, (0,), ("greedy",), (), ())
    return Client(nothing, described, make_manifest(kind, kind, "f", []), bundle, nothing, ANY, round_trip)


@pytest.mark.parametrize(("round_trip", "layers"), [(0.0, 0), (0.4, 3)])
def test_the_depth_is_chosen_by_the_round_trip(bundle, timed, round_trip, layers):
    note_accept_lengths(bundle, {0: 2.0, 3: 2.5})
    drafter = client(bundle, round_trip=round_trip).load_drafter()
    assert drafter.state.layers == layers
    assert drafter in timed
    assert sorted(each.state.layers for each in timed) == [0, 3], "a depth that nobody measured is not tried"


def test_one_depth_is_taken_without_timing_it(bundle, timed):
    note_accept_lengths(bundle, {1: 2.0})
    assert client(bundle).load_drafter().state.layers == 1
    assert timed == []


def test_where_nothing_was_measured_no_layer_runs_here(bundle, timed):
    assert client(bundle).load_drafter().state.layers == 0
    assert timed == []


@pytest.mark.parametrize("measured", [{}, {0: 2.0}])
def test_a_draft_that_runs_no_layers_needs_no_choice(tmp_path, target, measured):
    directory = make_eagle_draft(tmp_path / "bundle", target)
    write_tail(target, 0, directory / TAIL_FOLDER)
    if measured:
        note_accept_lengths(directory, measured)
    assert client(directory, "eagle").load_drafter().state.layers == 0


def test_what_was_measured_is_read_as_it_was_noted(bundle):
    assert read_accept_lengths(bundle) == {}
    note_accept_lengths(bundle, {0: 2.03125, 3: 2.5})
    assert read_accept_lengths(bundle) == {0: 2.031, 3: 2.5}
    assert client(bundle)._load(3).state.layers == 3, "the rest of the configuration is as it was"


@pytest.mark.parametrize("broken", ['{"zero": 2.0}', '{"0": "many"}', "[2.0]", '{"0": null}'])
def test_measurements_that_are_no_numbers_are_told_as_a_broken_file(tmp_path, broken):
    (tmp_path / "config.json").write_text(f'{{"accept_lengths": {broken}}}')
    with pytest.raises(CheckpointError, match="has broken 'accept_lengths'"):
        client(tmp_path).load_drafter()
