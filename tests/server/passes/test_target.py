"""The target's result for a pass: argmax as transformers computes it, and faults that stay within their segment."""

import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from common.models.segment import PassInput
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, Settings
from common.protocol.rules import RULES, Rule
from common.protocol.rules.verify_input import VerifyInput
from common.protocol.sampling import LIKELIEST
from common.protocol.scheduled_tokens import ScheduledTokens
from server.fault_isolation import FatalError
from server.passes.batch import ChosenTokens
from server.passes.target import Target
from server.refusal import AdmissionRefusedError, RefusalReason
from server.sessions.sessions import Sessions
from tests.pretended_gpu import GPU
from tests.server.clients_of_sessions import CAPACITY, SERVING_LIMITS, TERMS, Client


class Scripted:
    """A packed model whose logits for token t have their argmax at t + 1; token 7 gives NaN, 8 an exception, and 9 NaN
    in the whole segment, as K/V that are not finite do."""

    def __init__(self, device: str = "cpu") -> None:
        self.passes = 0
        self.pool, self.device = self, torch.device(device)
        self.moves: list[tuple[list[int], list[int]]] = []

    def move(self, sources: list[int], targets: list[int]) -> None:
        self.moves.append((sources, targets))

    def forward(self, segments: Sequence[PassInput]) -> SimpleNamespace:
        self.passes += 1
        tokens = [segment.tokens[row] for segment in segments for row in segment.wanted]
        if any(8 in segment.tokens for segment in segments):
            raise RuntimeError("no kernel image")
        logits = torch.nn.functional.one_hot(torch.tensor(tokens, dtype=torch.long) + 1, 12).double()
        spoilt = [9 in segment.tokens for segment in segments for _ in segment.wanted]
        logits[[index for index, token in enumerate(tokens) if token == 7 or spoilt[index]]] = float("nan")
        return SimpleNamespace(logits=logits)


def scheduled(chain: Sequence[int], verify_input: VerifyInput | None) -> ScheduledTokens:
    count = len(chain) + (0 if verify_input is None else len(verify_input.tokens) - 1)
    return ScheduledTokens(0, tuple(chain), verify_input, 0, slots=range(count))


def case(*tokens: int, wanted: Sequence[int] = ()) -> ScheduledTokens:
    """A chain of `tokens`, and the greedy rule's input for its wanted rows, which are the last ones."""
    if not wanted:
        return scheduled(tokens, None)
    rows = tuple(tokens[row] for row in wanted)
    parents = tuple(range(-1, len(rows) - 1))
    return scheduled(tokens[: wanted[0] + 1], VerifyInput("greedy", LIKELIEST, wanted[0] + 1, rows, parents))


def chosen(*tokens: int) -> ChosenTokens:
    return ChosenTokens(list(tokens))


def test_each_case_gets_its_own_tokens() -> None:
    cases = [case(1, 2, 3, wanted=[0, 1, 2]), case(3), case(4, 5, wanted=[1]), case(4, 6, wanted=[0, 1])]
    assert Target(Scripted()).verify(cases) == [
        chosen(2, 3, 4),
        ChosenTokens(()),
        chosen(6),
        chosen(5),
    ]  # type: ignore[arg-type]


def test_a_pass_says_what_the_target_would_put_behind_each_node() -> None:
    verify_input = VerifyInput("greedy", LIKELIEST, 1, (1, 2, 4, 2), (-1, 0, 0, 2))
    (outcome,) = Target(Scripted()).verify([scheduled([1], verify_input)])  # type: ignore[arg-type]
    assert isinstance(outcome, ChosenTokens)
    assert outcome.choices is not None
    assert outcome.choices.by_path() == {(): 2, (2,): 3, (4,): 5, (4, 2): 3}


def test_numbers_that_are_none_fail_their_case_alone() -> None:
    cases = [case(1, wanted=[0]), case(6, 7, wanted=[1]), case(2, wanted=[0])]
    first, broken, last = Target(Scripted()).verify(cases)  # type: ignore[arg-type]
    assert (first, last) == (chosen(2), chosen(3))
    assert isinstance(broken, PeerError)
    assert broken.code is FailureCode.INTERNAL
    assert "not finite" in str(broken)


@pytest.mark.parametrize("rule", ["greedy", "coupled", "speculative", "typical"])
def test_numbers_that_are_none_matter_only_where_the_walk_comes(rule: str) -> None:
    """NaN below a node that the target did not choose does no harm."""
    verify_input = VerifyInput(rule, LIKELIEST, 1, (1, 2, 7), (-1, 0, 0))
    assert Target(Scripted()).verify([scheduled([1], verify_input)]) == [chosen(2, 3)]  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["greedy", "coupled", "speculative", "typical"])
def test_a_drafted_token_that_spoils_its_segment_is_left_out(rule: str) -> None:
    verify_input = VerifyInput(rule, LIKELIEST, 2, (1, 2, 9), (-1, 0, 0))
    cases = [scheduled([3, 1], verify_input), case(9, wanted=[0])]
    good, broken = Target(Scripted()).verify(cases)  # type: ignore[arg-type]
    assert good == chosen(2)
    assert isinstance(broken, PeerError)


class Forcing:
    """A constraint that allows everything and leaves no choice but 3 behind 2."""

    def allowed(self, answer: Sequence[int]) -> np.ndarray:
        return np.ones(12, dtype=bool)

    def forced(self, answer: Sequence[int], most: int) -> tuple[int, ...]:
        return (3,) if list(answer)[-1:] == [2] else ()


def test_nothing_is_forced_where_a_drafted_token_has_spoilt_the_segment() -> None:
    """The K/V of the nodes that would be kept for it are spoilt."""
    tree = VerifyInput("greedy", LIKELIEST, 2, (1, 2, 3, 9), (-1, 0, 1, 0))
    verify_input = replace(tree, seen=(3, 1), prompt_length=2, constraint=Forcing())
    (outcome,) = Target(Scripted()).verify([scheduled([3, 1], verify_input)])  # type: ignore[arg-type]
    assert outcome == chosen(2)


@pytest.mark.parametrize(("walked", "committed"), [([2], [2]), ([5], [5]), ([2, 2], [2, 2, 3])])
def test_what_is_forced_is_committed_behind_a_bonus_token_and_not_behind_one_that_a_node_carries(
    walked: list[int], committed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That node may have spoilt K/V: it has to be the root of the next pass."""
    monkeypatch.setitem(RULES, "greedy", Rule(lambda verify_input, rows: list(walked)))
    tree = VerifyInput("greedy", LIKELIEST, 2, (1, 2), (-1, 0))
    verify_input = replace(tree, seen=(3, 1), prompt_length=2, constraint=Forcing())
    (outcome,) = Target(Scripted()).verify([scheduled([3, 1], verify_input)])  # type: ignore[arg-type]
    assert outcome == chosen(*committed)


def test_log_probabilities_are_those_of_the_rows_that_the_walk_came_by() -> None:
    """Each token was the likeliest of its row: 2 behind the root 1, 3 behind the node 2, 4 behind the node 3."""
    tree = VerifyInput("greedy", LIKELIEST, 2, (1, 5, 2, 6, 3), (-1, 0, 0, 2, 2), top_logprobs=1)
    (outcome,) = Target(Scripted()).verify([scheduled([4, 1], tree)])  # type: ignore[arg-type]
    assert isinstance(outcome, ChosenTokens)
    assert [[token for token, _ in each.top] for each in outcome.logprobs] == [[2], [3], [4]]
    assert [each.logp for each in outcome.logprobs] == [each.top[0][1] for each in outcome.logprobs]


def test_the_path_that_a_pass_accepts_moves_behind_its_chain() -> None:
    """Of the nodes 5, 2, 6, 3 below a root 1, the target accepts 2 and, below it, 3."""
    verify_input = VerifyInput("greedy", LIKELIEST, 2, (1, 5, 2, 6, 3), (-1, 0, 0, 2, 2))
    tree = ScheduledTokens(0, (4, 1), verify_input, 0, slots=range(10, 16))
    model = Scripted()
    assert Target(model).verify([case(1, wanted=[0]), tree]) == [chosen(2), chosen(2, 3, 4)]  # type: ignore[arg-type]
    assert model.moves == [([13, 15], [12, 13])]


def test_a_pass_that_raises_is_run_again_for_each_case() -> None:
    model = Scripted()
    cases = [case(1, wanted=[0]), case(8, wanted=[0]), case(2, wanted=[0])]
    first, broken, last = Target(model).verify(cases)  # type: ignore[arg-type]
    assert (first, last) == (chosen(2), chosen(3))
    assert isinstance(broken, PeerError)
    assert broken.code is FailureCode.INTERNAL
    assert model.passes == 4


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_gpu_that_is_lost_ends_the_server_and_one_that_only_failed_a_pass_does_not(
    is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stream:
        def __init__(self, device: torch.device):
            assert device == GPU

        def synchronize(self) -> None:
            if is_lost:
                raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    def wait_for_all(device: torch.device) -> None:
        raise torch.AcceleratorError("CUDA error: operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.accelerator, "current_stream", Stream)
    monkeypatch.setattr(torch.accelerator, "synchronize", wait_for_all)
    target = Target(Scripted("cuda:0"))  # type: ignore[arg-type]
    cases = [case(1, wanted=[0]), case(8, wanted=[0])]
    with pytest.raises(FatalError, match="start the server again") if is_lost else nullcontext():
        well, broken = target.verify(cases)
        assert well == chosen(2)
        assert isinstance(broken, PeerError)


def test_a_device_whose_streams_cannot_be_waited_for_is_not_taken_for_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def __init__(self, device: torch.device):
            pass

        def synchronize(self) -> None:
            raise RuntimeError("Backend doesn't support synchronizing streams.")

    monkeypatch.setattr(torch.accelerator, "current_stream", Stream)
    [broken] = Target(Scripted("mps")).verify([case(8, wanted=[0])])  # type: ignore[arg-type]
    assert isinstance(broken, PeerError)


class Narrow(Scripted):
    """Its device has memory for passes of at most `rows` tokens, and holds what the error of a pass holds."""

    def __init__(self, rows: int, error: Exception):
        super().__init__()
        self._rows, self._error = rows, error
        self.held: list[weakref.ref[torch.Tensor]] = []

    def forward(self, segments: Sequence[PassInput]) -> SimpleNamespace:
        assert not any(reference() is not None for reference in self.held), "the failed pass still holds its memory"
        if sum(len(segment.tokens) for segment in segments) > self._rows:
            states = torch.zeros(3)
            self.held.append(weakref.ref(states))
            raise type(self._error)(*self._error.args)
        return super().forward(segments)


def _too_large() -> RuntimeError:
    """As torch says it on a CPU."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 61, dtype=torch.uint8)
    return RuntimeError(*caught.value.args)


OUT_OF_MEMORY = (torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), _too_large())


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["gpu", "python", "cpu"])
def test_a_device_without_memory_for_all_computes_each_alone(error: Exception) -> None:
    cases = [case(1, 2, wanted=[0, 1]), case(3, 4, 5, wanted=[0, 1, 2]), case(2, wanted=[0])]
    model = Narrow(2, error)
    first, refused, last = Target(model).verify(cases)  # type: ignore[arg-type]
    assert (first, last) == (chosen(2, 3), chosen(3))
    assert isinstance(refused, AdmissionRefusedError)
    assert (refused.reason, refused.code) == (RefusalReason.MEMORY, FailureCode.MEMORY)
    assert refused.retry_after > 0
    assert len(model.held) == 2


def test_a_prompt_that_does_not_fit_is_computed_in_smaller_parts() -> None:
    sessions = Sessions(TERMS, SERVING_LIMITS, CAPACITY)
    long, short = Client(sessions, "long"), Client(sessions, "short")
    long.open([1, 2] * 15, Settings(max_new_tokens=4))
    short.open([3], Settings(max_new_tokens=2))
    target = Target(Narrow(10, MemoryError()))  # type: ignore[arg-type]
    passes = 0
    while not (long.done and short.done):
        assert passes < 16
        batch = sessions.plan(0.0)
        assert batch is not None
        sessions.complete(batch, target.verify(batch.scheduled), 0.0)
        long.hear()
        short.hear()
        passes += 1
    assert (long.session.answer, short.session.answer) == ([3, 4, 5, 6], [4, 5])
    assert sessions.counters.failed == sessions.counters.refused == {}


class FullPool(Scripted):
    """Its device has no memory to move the path of more than one session; it knows which logits are held."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[weakref.ref[torch.Tensor]] = []

    def move(self, sources: list[int], targets: list[int]) -> None:
        if len(targets) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    def forward(self, segments: Sequence[PassInput]) -> SimpleNamespace:
        assert not any(reference() is not None for reference in self.held), "the logits of the failed pass are held"
        logits = super().forward(segments).logits.float()
        self.held.append(weakref.ref(logits))
        return SimpleNamespace(logits=logits)


def test_a_pass_that_fails_after_its_forward_holds_no_logits_while_it_is_run_again() -> None:
    model = FullPool()
    cases = [case(1, 2, wanted=[0, 1]), case(3, 4, wanted=[0, 1])]
    assert Target(model).verify(cases) == [chosen(2, 3), chosen(4, 5)]  # type: ignore[arg-type]
    assert model.passes == 3
