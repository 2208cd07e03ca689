"""Draft state from a pool: of the requested slots, encoded as requested, with one forward for equal requests."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from common.codec import decode
from common.models.key_values import KeyValuePool
from common.protocol.draft_state import StateKind
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, StateRequest
from server.passes.sequence import NO_STAMP
from server.passes.state_export import ExportRequest
from server.passes.state_maker import StateMaker
from server.passes.state_rows import StateRows

POOL = KeyValuePool((torch.arange(20.0)[None, :, None].expand(1, 20, 4),), (torch.zeros(1, 20, 4),))
POISON = 13


class SlotNumbers:
    """Exports the number of each slot as its state, and fails for one of them."""

    def __init__(self, kind: str, width: int):
        self.kind = kind
        self.shape: tuple[int, ...] = (width,)
        self.calls: list[list[int]] = []

    def export(self, pool: KeyValuePool, slots: torch.Tensor) -> torch.Tensor:
        self.calls.append(slots.tolist())
        if POISON in slots:
            raise RuntimeError("no kernel image")
        return pool.keys_KSD[0][0, slots, :1].expand(len(slots), *self.shape)


def export_request(state_request: StateRequest, kind: str, slots: Sequence[int]) -> ExportRequest:
    return ExportRequest(state_request, kind, np.array(slots))


def stamped(slots: Sequence[int], stamps: Sequence[int], dtype: str = "int8") -> ExportRequest:
    return ExportRequest(StateRequest("moa", 0, dtype), "lsa", np.array(slots), np.array(stamps))


@pytest.fixture
def parts() -> tuple[StateMaker, SlotNumbers, SlotNumbers]:
    first, second = SlotNumbers("lsa", 4), SlotNumbers("kv", 6)
    table = {("moa", 0): [first], ("moa", 3): [first, second], ("eagle", 0): [SlotNumbers("hidden", 8)]}
    return StateMaker(POOL, table), first, second


def test_one_forward_serves_all_who_ask_alike(parts: tuple[StateMaker, SlotNumbers, SlotNumbers]) -> None:
    maker, lsa, kv = parts
    shallow, deep = StateRequest("moa", 0, "float16"), StateRequest("moa", 3, "int8")
    requests = [
        export_request(shallow, "lsa", [3, 1]),
        export_request(deep, "kv", [5]),
        export_request(deep, "lsa", [2]),
        export_request(deep, "kv", [7, 8]),
    ]
    payloads = maker.make(requests)
    assert (lsa.calls, kv.calls) == ([[3, 1, 2]], [[5, 7, 8]])
    numbers = []
    for each, payload, width in zip(requests, payloads, (4, 6, 4, 6), strict=True):
        assert payload is not None
        decoded = decode(payload, each.state_request.dtype, (len(each.slots), width))
        numbers.append(decoded.mean(dim=1).round(decimals=2).tolist())
    assert numbers == [[3, 1], [5], [2], [7, 8]]


def test_what_cannot_be_made_for_one_is_made_for_the_others(
    parts: tuple[StateMaker, SlotNumbers, SlotNumbers],
) -> None:
    maker, _, _ = parts
    request = StateRequest("moa", 0)
    payloads = maker.make(
        [
            export_request(request, "lsa", [1]),
            export_request(request, "lsa", [POISON]),
            export_request(request, "lsa", [2]),
        ]
    )
    assert [payload is None for payload in payloads] == [False, True, False]


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_state_of_a_cached_slot_is_made_once(dtype: str, parts: tuple[StateMaker, SlotNumbers, SlotNumbers]) -> None:
    """Frames may begin and end anywhere; an own slot, and one that was evicted since, is exported again."""
    maker, lsa, _ = parts
    first = maker.make([stamped([1, 2, 3], [0, 0, 0], dtype), stamped([2, 3, 4, 9], [0, 0, 0, NO_STAMP], dtype)])
    again = maker.make([stamped([3, 4, 9, 2], [0, 0, NO_STAMP, 1], dtype)])
    assert lsa.calls == [[1, 2, 3, 4, 9], [9, 2]]
    alone = StateMaker(POOL, {("moa", 0): [SlotNumbers("lsa", 4)]})
    assert [*first, *again] == alone.make(
        [
            ExportRequest(StateRequest("moa", 0, dtype), "lsa", np.array(s))
            for s in ([1, 2, 3], [2, 3, 4, 9], [3, 4, 9, 2])
        ]
    )


def test_rows_of_one_dtype_are_not_those_of_another(parts: tuple[StateMaker, SlotNumbers, SlotNumbers]) -> None:
    maker, lsa, _ = parts
    payloads = [maker.make([stamped([5], [0], dtype)])[0] for dtype in ("int8", "float16", "int8")]
    assert lsa.calls == [[5], [5]]
    assert payloads[0] == payloads[2]
    assert payloads[1] is not None
    assert decode(payloads[1], "float16", (1, 4)).tolist() == [[5.0] * 4]


def test_what_cannot_be_made_is_tried_again(parts: tuple[StateMaker, SlotNumbers, SlotNumbers]) -> None:
    maker, lsa, _ = parts
    assert [payload is None for payload in maker.make([stamped([1], [0]), stamped([POISON], [0])])] == [False, True]
    lsa.calls.clear()
    assert [payload is None for payload in maker.make([stamped([1], [0]), stamped([POISON], [0])])] == [False, True]
    assert [1] not in lsa.calls
    assert [POISON] in lsa.calls


def test_rows_are_counted() -> None:
    rows = StateRows(capacity=20, row_bytes=6)
    assert rows.nbytes == 0
    for slots, stamps in (([1, 2, 3], [0, 0, NO_STAMP]), ([1, 2], [0, 1])):
        request = stamped(slots, stamps)
        rows.keep(request, rows.lacks(request), np.zeros((len(slots), 6), np.uint8))
    assert rows.nbytes == 2 * 6


def test_what_is_not_finite_is_not_made_and_harms_nobody(parts: tuple[StateMaker, SlotNumbers, SlotNumbers]) -> None:
    pool = KeyValuePool((torch.tensor([[[1.0], [float("nan")], [2.0]]]),), (torch.zeros(1, 3, 1),))
    maker = StateMaker(pool, {("moa", 0): [SlotNumbers("lsa", 4)]})
    request = StateRequest("moa", 0)
    payloads = maker.make(
        [export_request(request, "lsa", [0]), export_request(request, "lsa", [1]), export_request(request, "lsa", [2])]
    )
    assert [payload is None for payload in payloads] == [False, True, False]


def test_a_request_comes_to_kinds_in_order(parts: tuple[StateMaker, SlotNumbers, SlotNumbers]) -> None:
    maker, _, _ = parts
    assert maker.kinds(StateRequest("moa", 0)) == [StateKind("lsa", (4,))]
    assert maker.kinds(StateRequest("moa", 3)) == [StateKind("lsa", (4,)), StateKind("kv", (6,))]


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (StateRequest("other"), "no draft state for the draft model 'other'"),
        (StateRequest("moa", 2), "cannot run the target's last 2 layers, only as many of them as one of: 0, 3"),
        (StateRequest("eagle", 1), "one of: 0"),
    ],
)
def test_what_is_not_served_is_refused(
    parts: tuple[StateMaker, SlotNumbers, SlotNumbers], request_: StateRequest, sentence: str
) -> None:
    with pytest.raises(PeerError, match=sentence) as refused:
        parts[0].kinds(request_)
    assert refused.value.code is FailureCode.INVALID


def test_state_of_slots_beyond_the_bound_is_made_anew() -> None:
    rows, request = StateRows(20, row_bytes=8, most_bytes=40), stamped([4, 5, 2], [7, 7, NO_STAMP])
    made = np.full((3, 8), 9, dtype=np.uint8)
    assert rows.lacks(request).all()
    rows.keep(request, np.ones(3, dtype=bool), made)
    assert rows.lacks(request).tolist() == [False, True, True]
    assert rows.read(request)[0].tolist() == [9] * 8
    assert rows.nbytes == 8
