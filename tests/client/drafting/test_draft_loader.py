"""Which depth of a draft is chosen by default: from its measured accept lengths, the link and the machine."""

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

import pytest

from client.drafting import needed_memory
from client.drafting.draft_loader import DraftChoice, DraftLoader
from client.drafting.needed_memory import TooLargeError, bundle_headers
from client.errors import BundleError
from common.bundle import TAIL_FOLDER, describe_file, make_manifest
from common.draft_models.measured_acceptance import (
    MeasuredAcceptance,
    read_measured_acceptance,
    write_measured_acceptance,
)
from common.draft_models.memory import needed_bytes
from common.draft_models.tail import write_tail
from common.drafters.deepening import DeepeningDrafter
from common.drafters.drafter import Drafter
from common.models.errors import CheckpointError
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from common.protocol.views import TreeView
from common.weight_only.modes import AS_IS
from tests.drafts import make_eagle_draft, make_moa_draft
from tests.families import make_checkpoint

ANY = DraftChoice(layers=None)


def note_lengths(directory: Path, by_depth: dict[int, float]) -> None:
    write_measured_acceptance(directory, {depth: MeasuredAcceptance(length) for depth, length in by_depth.items()})


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("target"), "llama")


@pytest.fixture
def bundle(tmp_path, target) -> Path:
    """Makes a moa draft that runs 0, 1 or 3 layers."""
    directory = make_moa_draft(tmp_path / "bundle", target)
    write_tail(target, 3, directory / TAIL_FOLDER)
    return directory


@pytest.fixture
def timed(monkeypatch) -> list[Drafter]:
    """Records the depths that were timed; a level takes 5 ms, and 4 ms more for each layer of the target."""
    drafters = []

    def level_seconds(drafter, vocab_size, clock):
        assert vocab_size == 300
        drafters.append(drafter)
        return 0.005 + (0.004 * drafter.state.layers if drafter.state else 0.0)

    monkeypatch.setattr("client.drafting.depth.level_seconds", level_seconds)
    return drafters


def loader(bundle: Path, kind: str = "moa", round_trip: float = 0.05) -> DraftLoader:
    manifest = make_manifest(kind, kind, "f", [])
    return DraftLoader(bundle, manifest, ANY, context=400, vocab_size=300, round_trip=round_trip)


def test_far_away_the_deepest_runs_here(bundle, timed):
    note_lengths(bundle, {0: 2.0, 3: 2.5})
    drafter = loader(bundle, round_trip=0.4).load()()
    assert drafter.state == StateRequest("moa", 3, "int8")
    assert sorted(each.state.layers for each in timed) == [0, 3], "a depth that nobody measured is not tried"


def test_near_by_none_runs_here_and_the_deepest_waits_for_an_outage(bundle, timed):
    note_lengths(bundle, {0: 2.0, 3: 2.5})
    drafter = loader(bundle, round_trip=0.0).load()()
    assert isinstance(drafter, DeepeningDrafter)
    assert drafter.state == StateRequest("moa", 3, "int8", later=True)


@pytest.fixture
def small_memory(bundle, monkeypatch):
    """Lets only draft models with at most so many target layers fit."""

    def limit(layers: int) -> None:
        free = needed_bytes(bundle_headers(bundle), "moa", layers, AS_IS, 4) if layers >= 0 else 1
        monkeypatch.setattr(needed_memory, "free_memory_bytes", lambda _: free)

    return limit


@pytest.mark.parametrize(("round_trip", "later"), [(0.4, False), (0.0, True)])
def test_a_depth_that_does_not_fit_into_memory_is_left_out(bundle, timed, small_memory, round_trip, later):
    note_lengths(bundle, {3: 2.6, 0: 2.0, 1: 2.1})
    small_memory(1)
    drafter = loader(bundle, round_trip=round_trip).load()()
    assert drafter.state == StateRequest("moa", 1, "int8", later=later)
    assert sorted(each.state.layers for each in timed) == [0, 1]


def test_where_only_none_fits_none_runs_here(bundle, timed, small_memory):
    note_lengths(bundle, {0: 2.0, 3: 2.5})
    small_memory(0)
    assert loader(bundle, round_trip=0.0).load()().state == StateRequest("moa", 0, "int8")


def test_where_no_depth_fits_fewer_layers_are_no_remedy(bundle, timed, small_memory):
    note_lengths(bundle, {0: 2.0, 3: 2.5})
    small_memory(-1)
    with pytest.raises(TooLargeError, match="choose --weights int4 or another --draft") as refused:
        loader(bundle).load()
    assert "--layers" not in str(refused.value)


def test_one_depth_is_taken_without_timing_it(bundle, timed):
    note_lengths(bundle, {1: 2.0})
    assert loader(bundle).load()().state.layers == 1
    assert timed == []


def test_where_nothing_was_measured_no_layer_runs_here(bundle, timed):
    assert loader(bundle).load()().state.layers == 0
    assert timed == []


@pytest.mark.parametrize("measured", [{}, {0: 2.0}])
def test_a_draft_that_runs_no_layers_needs_no_choice(tmp_path, target, measured):
    directory = make_eagle_draft(tmp_path / "bundle", target)
    write_tail(target, 0, directory / TAIL_FOLDER)
    if measured:
        note_lengths(directory, measured)
    assert loader(directory, "eagle").load()().state.layers == 0


def test_a_stand_in_answers_at_its_deepest_what_the_server_has_not_read(tmp_path, target, bundle, timed):
    directory = make_eagle_draft(tmp_path / "eagle", target)
    write_tail(target, 0, directory / TAIL_FOLDER)
    note_lengths(bundle, {0: 2.0, 1: 2.2, 3: 2.5})
    stand_in = make_manifest("moa", "moa", "f", []), bundle
    choice = replace(ANY, draft="eagle", stand_in="moa")
    drafter = replace(loader(directory, "eagle"), choice=choice, others=(stand_in,)).load()()
    unread = TreeView(tuple(range(20)), (), alone=True, prompt_length=20)
    assert drafter.state == StateRequest("eagle", 0, "int8")
    assert drafter.draft(unread) == loader(bundle)._load(3)().draft(unread)
    assert drafter.draft(replace(unread, alone=False)) == loader(directory, "eagle").load()().draft(unread)


def test_where_a_stand_in_cannot_be_loaded_the_other_writes(tmp_path, target, bundle, timed):
    directory = make_eagle_draft(tmp_path / "eagle", target)
    write_tail(target, 0, directory / TAIL_FOLDER)
    note_lengths(bundle, {0: 2.0, 3: 2.5})
    (bundle / "model.safetensors").write_bytes(b"damaged")
    choice, stand_in = replace(ANY, draft="eagle", stand_in="moa"), (make_manifest("moa", "moa", "f", []), bundle)
    drafter = replace(loader(directory, "eagle"), choice=choice, others=(stand_in,)).load()()
    unread = TreeView(tuple(range(20)), (), alone=True, prompt_length=20)
    assert drafter.draft(unread) == loader(directory, "eagle").load()().draft(unread)


def test_what_was_measured_is_read_as_it_was_noted(bundle):
    assert read_measured_acceptance(bundle) == {}
    write_measured_acceptance(bundle, {0: MeasuredAcceptance(2.03125, 1.5), 3: MeasuredAcceptance(2.5)})
    assert read_measured_acceptance(bundle) == {0: MeasuredAcceptance(2.031, 1.5), 3: MeasuredAcceptance(2.5)}
    assert loader(bundle)._load(3)().state.layers == 3, "the rest of the configuration is as it was"


BROKEN = [
    '{"zero": 2.0}',
    '{"0": "many"}',
    "[2.0]",
    '{"0": null}',
    '{"0": 2.0, "3": NaN}',
    '{"0": Infinity}',
    '{"0": -Infinity}',
    '{"0": 0.0}',
    '{"0": -1.5}',
    '{"-1": 2.0}',
    f'{{"0": 1{"0" * 400}}}',
]


@pytest.mark.parametrize("broken", BROKEN)
def test_measurements_that_cannot_be_are_told_as_a_broken_file_of_the_server(tmp_path, broken):
    (tmp_path / "config.json").write_text(f'{{"accept_lengths": {broken}}}')
    with pytest.raises(CheckpointError, match="has broken 'accept_lengths'"):
        read_measured_acceptance(tmp_path)
    with pytest.raises(BundleError, match=r"the draft model 'moa' cannot be used as its server sent it: .*broken"):
        loader(tmp_path).load()()


@pytest.mark.parametrize("measured", [{7: 2.0}, {0: 2.0, 7: 3.0}])
def test_depths_that_a_draft_does_not_serve_are_the_bundles_fault(bundle, timed, measured):
    note_lengths(bundle, measured)
    with pytest.raises(BundleError, match="'moa' cannot be used as its server sent it: this draft runs 0, 1, 3 of"):
        loader(bundle).load()()


@pytest.mark.parametrize("measured", [{1: 2.0}, {0: 2.0, 1: 3.0}])
def test_depths_of_a_draft_that_runs_no_layers_are_the_bundles_fault(tmp_path, target, timed, measured):
    directory = make_eagle_draft(tmp_path / "bundle", target)
    write_tail(target, 0, directory / TAIL_FOLDER)
    note_lengths(directory, measured)
    with pytest.raises(BundleError, match="the draft model 'eagle' runs no layer of the target, not 1"):
        loader(directory, "eagle").load()()
    shutil.rmtree(directory / TAIL_FOLDER)
    with pytest.raises(BundleError, match="the draft model 'lookup' runs no layer of the target, not 1"):
        loader(directory, "lookup").load()()


def test_a_device_that_is_not_here_stays_the_persons_own_fault(bundle):
    note_lengths(bundle, {0: 2.0, 3: 2.5})
    wrong = loader(bundle)
    with pytest.raises(CheckpointError, match="passes do not run on the device 'meta'"):
        replace(wrong, choice=replace(ANY, device="meta")).load()()


@pytest.mark.parametrize("damage", ["{", "[]", '{"accept_lengths": {"0": NaN}}', '{"accept_lengths": {"7": 2.0}}'])
def test_damage_since_the_bundle_was_fetched_is_mended_by_a_pull(bundle, damage):
    config = bundle / "config.json"
    whole = make_manifest("moa", "moa", "f", [describe_file("config.json", config)])
    if damage.startswith('{"'):
        damage = config.read_text().rstrip().removesuffix("}") + "," + damage.removeprefix("{")
    config.write_text(damage)
    with pytest.raises(BundleError, match=r"config.json in the bundle is damaged; fetch it again with `outrider pull`"):
        replace(loader(bundle), manifest=whole).load()()


def test_no_more_than_two_depths_are_in_memory_at_once(tmp_path, monkeypatch):
    class Stub:
        def __init__(self, state: StateRequest):
            self.state = state

    alive: WeakSet[Stub] = WeakSet()
    most = 0

    def load_draft_model(kind, site, beside):
        nonlocal most
        weights = Stub(site.request)
        alive.add(weights)
        most = max(most, len(alive))
        return lambda: weights

    monkeypatch.setattr("common.drafters.load.load_draft_model", load_draft_model)
    monkeypatch.setattr("client.drafting.depth.level_seconds", lambda drafter, vocab_size, clock: 0.005)
    (tmp_path / "config.json").write_text("{}")
    for best in (2, 4):  # none of whom needs another for an outage
        note_lengths(tmp_path, {layers: 3.0 if layers == best else 2.0 for layers in range(5)})
        assert loader(tmp_path).load()().state.layers == best
    assert most == 2


@pytest.mark.parametrize(
    ("draft", "bundle_name", "others", "beside"),
    [
        (None, None, (), ()),
        ("moa", "moa", (), ()),
        ("lookup", "lookup", (), ()),
        ("moa+lookup", "moa", (), ("lookup",)),
        ("lookup+moa", "moa", (), ("lookup",)),
        ("ouroboros", "lookup", (), ()),
        ("lookahead+lookup", "lookup", (), ("lookup",)),
        ("lookup+ouroboros+moa", "moa", (), ("lookup", "ouroboros")),
        ("eagle+lookup+small", "eagle", ("small",), ("lookup",)),
    ],
)
def test_a_choice_names_bundles_and_what_drafts_beside_them(draft, bundle_name, others, beside):
    choice = DraftChoice(draft)
    assert (choice.bundle, choice.other_bundles, choice.beside) == (bundle_name, others, beside)


def test_a_level_that_needs_draft_state_to_propose_anything_has_no_time(bundle, monkeypatch):
    monkeypatch.setattr("client.drafting.depth.level_seconds", lambda *given: 0.005)
    assert loader(bundle).time_level(0) == 0.005
    monkeypatch.setattr("common.drafters.tree_drafter.TreeDrafter.draft", lambda self, view, states=(): [])
    assert loader(bundle).time_level(0) == math.inf


@pytest.mark.parametrize(
    ("draft", "kind"),
    [(None, "lookup"), ("lookup", "lookup"), ("lookahead", "lookahead"), ("ouroboros+lookup", "ouroboros+lookup")],
)
def test_every_kind_without_weights_is_loaded_from_the_one_bundle_without(tmp_path, draft, kind):
    chosen = replace(loader(tmp_path, "lookup"), choice=DraftChoice(draft))
    assert chosen.load()().kind == kind


@pytest.mark.parametrize("layers", [0, 1])
def test_what_drafts_beside_it_is_merged_with_the_bundles_draft(bundle, layers):
    chosen = replace(loader(bundle), choice=DraftChoice("moa+lookup", layers=layers))
    drafter = chosen.load()()
    assert (drafter.kind, drafter.state.draft) == ("moa+lookup", "moa")


@pytest.mark.parametrize(
    ("draft", "says"),
    [
        ("moa+lookup+lookup", "names 'lookup' twice"),
        ("", "--draft names nothing; give a draft's name, or leave --draft out"),
        ("moa+", "lacks a name beside its '+'"),
        ("+lookup", "lacks a name beside its '+'"),
    ],
)
def test_drafts_that_cannot_draft_together_are_refused(draft, says):
    with pytest.raises(MisuseError, match=re.escape(says)):
        DraftChoice(draft)
