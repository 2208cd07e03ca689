"""Sync points and masks say exactly what a client would have received."""

import pytest
import torch

from common.protocol.draft_state import FIRST_POSITIONS
from training.draft_models.lags import PUBLISHED, LagSettings, draw_received
from training.draft_models.recipe import Batch


def batch_of(prompt: int, answer: int, rows: int = 8) -> Batch:
    columns = prompt + answer
    learn = torch.zeros(rows, columns, dtype=torch.bool)
    learn[:, prompt - 1 : -1] = True
    return Batch(torch.ones(rows, columns, dtype=torch.long), learn, torch.full((rows,), columns))


def by_hand(received, row, query):
    """The newest position whose state has come by the time that `query` is the newest token."""
    held = [p for p in range(query) if received.sync[row, p] and received.held[row, p]]
    return max(held, default=-1)


@pytest.mark.parametrize("missing", [0.0, 1.0])
def test_a_query_has_the_state_up_to_its_latest_sync_point_and_never_its_own(missing):
    torch.manual_seed(1)
    received = draw_received(batch_of(20, 60), LagSettings(missing=missing))
    for row in range(8):
        for query in range(80):
            newest = by_hand(received, row, query)
            assert received.newest[row, query] == newest < query
            expected = [p <= newest and bool(received.held[row, p]) for p in range(80)]
            assert received.seen[row, query].tolist() == expected
    assert (received.lags >= 1).all()


def test_a_query_sees_each_token_up_to_itself_once_by_received_state_or_by_the_drafts_own():
    torch.manual_seed(8)
    received = draw_received(batch_of(20, 30), LagSettings(missing=0.5, alone=0.5))
    by_state, own = received.seen_or_own.chunk(2, dim=-1)
    assert torch.equal(by_state, received.seen)
    causal = torch.ones(50, 50, dtype=torch.bool).tril()
    assert torch.equal(by_state.int() + own.int(), causal.int().expand(8, -1, -1))


def test_gaps_are_as_long_as_the_settings_say():
    torch.manual_seed(2)
    received = draw_received(batch_of(20, 200, rows=200), LagSettings(shortest=2, longest=40))
    longest = received.lags[:, 80:180].amax(dim=1)
    assert longest.min() >= 2
    assert longest.max() <= 40
    assert (longest < 9).float().mean() == pytest.approx(0.5, abs=0.12)  # log-uniform: half lie below sqrt(2 * 40)


def test_missing_spans_lie_in_the_prompt_and_spare_its_first_positions():
    torch.manual_seed(3)
    received = draw_received(batch_of(40, 40, rows=100), LagSettings(missing=0.5))
    lost = ~received.held
    assert not lost[:, :4].any()
    assert not lost[:, 40:].any()
    assert 0.2 < lost.any(dim=1).float().mean() < 0.6


def test_which_state_of_a_prompt_is_missing_does_not_depend_on_the_answer():
    def missing(answer: int) -> torch.Tensor:
        torch.manual_seed(6)
        return ~draw_received(batch_of(40, answer, rows=400), LagSettings(missing=1.0)).held[:, :40]

    lost = missing(40)
    assert torch.equal(lost, missing(4))
    assert torch.equal(lost, missing(200))
    # Any place behind the first ones may be the first or the last that is missing.
    assert lost[:, FIRST_POSITIONS:].any(dim=0).all()
    assert not lost[:, :FIRST_POSITIONS].any()
    edges = lost.int().diff(dim=1)
    assert ((edges == 1).sum(dim=1) <= 1).all()


def test_state_that_stops_for_good_stops_anywhere_and_never_comes_back():
    torch.manual_seed(5)
    received = draw_received(batch_of(40, 60, rows=400), LagSettings(alone=0.5))
    held = received.held[:, 4:].int()
    assert (held.diff(dim=1) <= 0).all()
    ends = held.sum(dim=1)
    assert 0.4 < (ends < 96).float().mean() < 0.6
    assert ends.min() <= 5
    assert 40 < ends[ends < 96].float().mean() < 56


def test_the_published_form_sees_its_own_state_at_sync_points():
    torch.manual_seed(4)
    received = draw_received(batch_of(20, 60), PUBLISHED)
    at_sync = received.sync & received.held
    positions = torch.arange(80).expand(8, 80)
    assert torch.equal(received.newest[at_sync], positions[at_sync])
    periods = {int(row.sum()) for row in received.sync[:, 20:]}
    assert len(periods) > 1
    since = received.since_sync
    assert torch.equal(since.sum(-1)[at_sync], torch.ones(int(at_sync.sum()), dtype=torch.long))


def test_published_sync_points_are_every_sixth_to_fourteenth_token_each_as_often():
    torch.manual_seed(7)
    received = draw_received(batch_of(20, 200, rows=900), PUBLISHED)
    periods = received.lags[:, 80:180].amax(dim=1) + 1
    counts = torch.bincount(periods, minlength=15)
    assert counts[6:15].sum() == 900
    assert counts[6:15].min() > 60


def test_what_is_received_is_drawn_on_the_batchs_device():
    meta = torch.device("meta")
    received = draw_received(batch_of(6, 4).to(meta), LagSettings(missing=0.5, alone=0.5))
    assert {each.device for each in (received.newest, received.held, received.sync)} == {meta}
