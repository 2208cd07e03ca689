"""What the target makes of a pass: argmax as transformers does it, and faults that stay with their segment."""

from collections.abc import Sequence
from types import SimpleNamespace

import torch

from common.models.segment import Segment
from server.target import Target


class Scripted:
    """A packed model that answers token t with logits of argmax t + 1; 7 gives NaN and 8 an exception."""

    def __init__(self) -> None:
        self.passes = 0

    def forward(self, segments: Sequence[Segment]) -> SimpleNamespace:
        self.passes += 1
        tokens = [segment.tokens[row] for segment in segments for row in segment.wanted]
        if any(8 in segment.tokens for segment in segments):
            raise RuntimeError("no kernel image")
        logits = torch.nn.functional.one_hot(torch.tensor(tokens, dtype=torch.long) + 1, 12).double()
        logits[[index for index, token in enumerate(tokens) if token == 7]] = float("nan")
        return SimpleNamespace(logits=logits)


def chain(*tokens: int, wanted: Sequence[int] = ()) -> Segment:
    count = len(tokens)
    return Segment(tokens, slots=range(count), parents=range(-1, count - 1), wanted=wanted)


def test_each_segment_gets_its_own_choices() -> None:
    segments = [chain(1, 2, wanted=[0, 1]), chain(3), chain(4, 5, wanted=[1])]
    assert Target(Scripted()).choose(segments) == [[2, 3], [], [6]]  # type: ignore[arg-type]


def test_numbers_that_are_none_fail_their_segment_alone() -> None:
    segments = [chain(1, wanted=[0]), chain(6, 7, wanted=[0, 1]), chain(2, wanted=[0])]
    assert Target(Scripted()).choose(segments) == [[2], None, [3]]  # type: ignore[arg-type]


def test_a_pass_that_raises_is_run_again_for_each_segment() -> None:
    model = Scripted()
    segments = [chain(1, wanted=[0]), chain(8, wanted=[0]), chain(2, wanted=[0])]
    assert Target(model).choose(segments) == [[2], None, [3]]  # type: ignore[arg-type]
    assert model.passes == 4
