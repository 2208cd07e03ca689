"""A target that is divided between two ranks computes what one process computes: passes, moved slots, draft state."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import torch

from common.models.errors import CheckpointError
from common.models.segment import Segment
from common.protocol.errors import PeerError
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.sampling import LIKELIEST, Sampling
from common.protocol.scheduled_tokens import ScheduledTokens
from server.models.draft_models import load_exporters
from server.models.offer import make_offer
from server.models.target_loader import load_target
from server.passes.batch import PassOutcome
from server.passes.target import Target
from server.rank_info import RankInfo
from server.ranks.commands import Run
from server.ranks.group import RanksBrokenError
from server.ranks.lead import Lead
from tests.drafts import make_eagle3_draft, make_eagle_draft, make_moa_draft
from tests.families import make_checkpoint
from tests.server.ranks.two_ranks import as_rank_0

PLACED = {"device": "cpu", "dtype": "float64", "capacity": 400, "threads": 1, "quantise": "", "batch_invariant": None}
PROMPT = list(range(5, 45))
ROUNDING = 1e-12
Outcomes = Sequence[PassOutcome]
States = Mapping[tuple[str, int, str], torch.Tensor]


def work_of(target: Target) -> tuple[list[Outcomes], torch.Tensor]:
    """What passes over two sessions commit, greedily and sampled, one of which is at fault; and the logits of a tree
    after the accepted nodes have moved."""
    read = ScheduledTokens(0, tuple(PROMPT[:-1]), None, 0, slots=range(100, 139))
    outcomes = [target.verify([read])]
    for sampling, rule in ((LIKELIEST, "greedy"), (Sampling(1.0, seed=4), "coupled")):
        tree = VerifyInput(rule, sampling, 40, (PROMPT[-1], 7, 9, 11), (-1, 0, 1, 0))
        verified = ScheduledTokens(39, (PROMPT[-1],), tree, 0, slots=range(139, 143), past_slots=range(100, 139))
        outside = ScheduledTokens(0, (10**6,), None, 0, slots=(0,))
        outcomes.append(target.verify([verified, outside]))
    target.model.pool.move([142, 139], [139, 142])
    moved = Segment([8, 9], [150, 151], [-1, -1], [*range(100, 139), 142], [1, 0])
    return outcomes, target.model.forward([moved]).logits


def states_of(target: Target, directory: Path, drafts: tuple[str, ...]) -> States:
    exporters = load_exporters(make_offer(str(directory), drafts).draft_models, target.model)
    slots = torch.tensor([101, 100, 120, 138])
    return {
        (draft, layers, exporter.kind): exporter.export(target.model.pool, slots)
        for (draft, layers), of_draft in exporters.items()
        for exporter in of_draft
    }


def divided(lead: Lead, directory: Path, drafts: tuple[str, ...]) -> tuple[list[Outcomes], torch.Tensor, States, int]:
    offer = make_offer(str(directory), drafts)
    target = lead.load_target(str(directory), **PLACED, keep_hidden=offer.needs_hidden, taps=offer.taps)
    outcomes, logits = work_of(target)
    return outcomes, logits, states_of(target, directory, drafts), target.weights_bytes


def in_words(outcomes: Sequence[Outcomes]) -> list[list[str]]:
    return [
        [str(each) if isinstance(each, PeerError) else str(list(each.tokens)) for each in of_pass]
        for of_pass in outcomes
    ]


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_two_ranks_compute_what_one_process_computes(family: str, tmp_path: Path) -> None:
    directory = make_checkpoint(tmp_path / "target", family)
    drafts = (
        str(make_moa_draft(tmp_path / "moa", directory)),
        str(make_eagle_draft(tmp_path / "eagle", directory)),
        str(make_eagle3_draft(tmp_path / "eagle3", directory)),
    )
    offer = make_offer(str(directory), drafts)
    alone = load_target(str(directory), **PLACED, keep_hidden=offer.needs_hidden, taps=offer.taps)  # type: ignore[arg-type]
    outcomes, logits, states, weights_bytes = as_rank_0(divided, directory, drafts)

    expected, expected_logits = work_of(alone)
    assert in_words(outcomes) == in_words(expected)
    assert len(in_words(expected)[1][0]) > 2
    assert (logits - expected_logits).abs().max() < ROUNDING * expected_logits.abs().max()
    wanted = states_of(alone, directory, drafts)
    assert {kind for _, _, kind in wanted} == {"lsa", "kv", "hidden", "fused"}
    assert states.keys() == wanted.keys()
    for name, state in wanted.items():
        # Exporters give float32.
        assert torch.allclose(states[name], state, rtol=1e-6, atol=1e-6), name
    assert weights_bytes < 0.6 * alone.weights_bytes


class SlowGroup:
    """Other ranks that are still busy when they are told that everything is loaded."""

    def __init__(self) -> None:
        self.is_free = threading.Event()
        self.were_free_in_time = list[bool]()

    def send(self, numbers: object) -> None:
        self.were_free_in_time.append(self.is_free.wait(2))

    def expect_answers_soon(self) -> None: ...

    def meet(self) -> None: ...


async def test_other_ranks_that_are_busy_do_not_hold_the_event_loop_up() -> None:
    lead, group = Lead(RankInfo(ranks=2, local=2)), SlowGroup()
    lead._group = group  # type: ignore[assignment]
    watching = asyncio.create_task(lead.watch())
    await asyncio.sleep(0.01)
    group.is_free.set()
    while not group.were_free_in_time:
        await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert group.were_free_in_time == [True]


async def test_a_pass_that_hangs_is_noticed_although_a_beat_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SILENCE_S", 0.05), ("_GRACE_S", 0.05), ("_BEAT_S", 0.01)):
        monkeypatch.setattr(f"server.ranks.lead.{name}", seconds)
    lead, group = Lead(RankInfo(ranks=2, local=2)), SlowGroup()
    monkeypatch.setattr(lead, "_end_at_once", lambda _: None)
    group.is_free.set()
    lead._group = group  # type: ignore[assignment]
    beat, hangs, is_over = lead._beat, threading.Event(), threading.Event()

    def hang() -> None:
        with lead.telling(Run(0, [])):
            hangs.set()
            is_over.wait(60)

    def begin_a_pass_and_beat() -> None:
        threading.Thread(target=hang).start()
        hangs.wait()
        beat()

    monkeypatch.setattr(lead, "_beat", begin_a_pass_and_beat)
    try:
        with pytest.raises(RanksBrokenError, match="a rank of the target hangs"):
            await asyncio.wait_for(lead.watch(), 10)
    finally:
        is_over.set()


@pytest.mark.parametrize(
    ("ranks", "options", "reason"),
    [
        (2, {"batch_invariant": True}, "leave out --batch-invariant or --tensor-parallel"),
        (2, {"quantise": "int8"}, r"a quantised target \(int8\) runs on one device"),
        (3, {}, "6 attention heads with 2 heads of keys and values .* among 3 ranks; use --tensor-parallel 2"),
    ],
)
def test_what_cannot_be_divided_is_refused_before_any_rank_starts(
    target: Path, ranks: int, options: Mapping[str, object], reason: str
) -> None:
    with closing(Lead(RankInfo(ranks=ranks, local=ranks))) as lead:
        with pytest.raises(CheckpointError, match=reason):
            lead.load_target(str(target), **{**PLACED, "keep_hidden": False, "taps": (), **options})
        with pytest.raises(AssertionError):
            _ = lead.group
