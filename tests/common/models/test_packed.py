"""A packed pass computes what the plain model computes on each path alone, whatever else is in the row."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, MambaConfig, PreTrainedModel

from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from common.models.packed import PackedModel
from common.models.segment import Segment
from common.models.slots import SlotPool
from tests.common.models.conftest import CAPACITY
from tests.common.models.session import Session, check, linear_logits
from tests.families import FAMILIES, SLIDING_WINDOW

Packed = Callable[[str], PackedModel]
Reference = Callable[[str], PreTrainedModel]

every_family = pytest.mark.parametrize("family", FAMILIES)


def random_tokens(count: int, seed: int) -> list[int]:
    return torch.randint(0, 300, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


@every_family
def test_odd_chunks_of_several_sessions_equal_whole_texts(family: str, packed: Packed, reference: Reference) -> None:
    model, slots = packed(family), SlotPool(CAPACITY)
    texts = [random_tokens(length, seed=length) for length in (53, 31, 7)]
    chunks = [(1, 17, 30, 5), (13, 1, 1, 16), (2, 2, 2, 1)]
    sessions = [Session(slots) for _ in texts]
    results: list[list[torch.Tensor]] = [[] for _ in texts]
    for turn in range(4):
        segments = []
        for session, text, sizes in zip(sessions, texts, chunks, strict=True):
            start = sum(sizes[:turn])
            segments.append(session.append(text[start : start + sizes[turn]]))
        logits = model.forward(segments).logits
        for result, session, part in zip(
            results, sessions, logits.split([len(each.tokens) for each in segments]), strict=True
        ):
            result.append(part)
            session.commit(len(session.parents) - 1)
    for text, result in zip(texts, results, strict=True):
        torch.testing.assert_close(torch.cat(result), linear_logits(reference(family), text), rtol=0, atol=1e-9)


@every_family
def test_a_streaming_tree_equals_its_paths(family: str, packed: Packed, reference: Reference) -> None:
    """Prompt and tree in one segment, growth below kept nodes, commits that keep slots, and a chain after them."""
    model, plain, slots = packed(family), reference(family), SlotPool(CAPACITY)
    near, far = Session(slots), Session(slots)
    check(
        model,
        plain,
        [near, far],
        [
            near.propose([5, 6, 7, 8, 9, 10], [-1, 0, 1, 2, 2, 3]),
            far.append(random_tokens(SLIDING_WINDOW + 9, seed=1)),
        ],
    )
    far.commit(len(far.parents) - 1)
    check(
        model,
        plain,
        [far, near],
        [far.propose([11, 12, 13, 14], [-1, -1, 1, 2]), near.propose([21, 22, 23], [5, 3, 6])],
    )
    near.commit(3)
    far.commit(1)
    check(model, plain, [near], [near.propose([31, 32, 33], [0, -1, 3])])
    near.commit(0)
    far.commit(1)
    check(model, plain, [near, far], [near.propose([41], [1]), far.append([42, 43])])
    assert slots.free == CAPACITY - sum(len(each.past_slots) + len(each.branch_slots) for each in (near, far))


@st.composite
def growths(draw: st.DrawFn) -> list[tuple[int, list[list[int]]]]:
    """Sessions of (prompt length, parents of each growth)."""
    sessions = []
    for _ in range(draw(st.integers(min_value=1, max_value=4))):
        known = 0
        growth: list[list[int]] = []
        for _ in range(2):
            size = draw(st.integers(min_value=1, max_value=8))
            growth.append([draw(st.integers(min_value=-1, max_value=known + i - 1)) for i in range(size)])
            known += size
        sessions.append((draw(st.integers(min_value=1, max_value=24)), growth))
    return sessions


@settings(
    max_examples=12,
    deadline=None,
    # The models compute their norms in float32, where a last-bit difference shows once in a great many numbers.
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(growths=growths(), family=st.sampled_from(FAMILIES))
def test_random_forests_equal_their_paths(
    family: str, growths: list[tuple[int, list[list[int]]]], packed: Packed, reference: Reference
) -> None:
    model, slots = packed(family), SlotPool(CAPACITY)
    sessions = [Session(slots) for _ in growths]
    prompts = [
        session.append(random_tokens(length, length)) for session, (length, _) in zip(sessions, growths, strict=True)
    ]
    model.forward(prompts)
    for session in sessions:
        session.commit(len(session.parents) - 1)
    for turn in range(2):
        segments = [
            session.propose(random_tokens(len(growth[turn]), turn), growth[turn])
            for session, (_, growth) in zip(sessions, growths, strict=True)
        ]
        check(model, reference(family), sessions, segments)


@every_family
def test_greedy_decoding_equals_generate(family: str, packed: Packed, reference: Reference) -> None:
    model, session = packed(family), Session(SlotPool(CAPACITY))
    prompt = random_tokens(12, seed=3)
    generated = (
        reference(family)
        .generate(torch.tensor([prompt]), max_new_tokens=40, min_new_tokens=40, do_sample=False, eos_token_id=None)[0]
        .tolist()
    )
    text = list(prompt)
    fresh = prompt
    for _ in range(40):
        token = int(model.forward([session.append(fresh)]).logits[-1].argmax())
        session.commit(len(session.parents) - 1)
        text.append(token)
        fresh = [token]
    assert text == generated


@every_family
def test_only_wanted_rows_are_returned_in_the_order_asked(family: str, packed: Packed) -> None:
    model = packed(family)
    tokens = random_tokens(9, seed=4)
    chain = {"tokens": tokens, "parents": range(-1, 8)}
    everything = model.forward([Segment(**chain, slots=range(9), wanted=range(9))])
    some = model.forward(
        [
            Segment(**chain, slots=range(20, 29), wanted=[8, 3]),
            Segment(**chain, slots=range(40, 49)),
            Segment(**chain, slots=range(60, 69), wanted=[0]),
        ]
    )
    torch.testing.assert_close(some.logits, everything.logits[[8, 3, 0]], rtol=0, atol=1e-9)
    torch.testing.assert_close(some.hidden, everything.hidden.repeat(3, 1), rtol=0, atol=1e-9)
    assert model.forward([Segment(tokens=[1], slots=[99], parents=[-1])]).logits.shape == (0, 300)


def test_keys_and_values_are_readable_by_slot(packed: Packed) -> None:
    model = packed("llama")
    model.forward([Segment(tokens=[1, 2], slots=[5, 90], parents=[-1, 0])])
    untouched, _ = model.pool.read(2, torch.tensor([6]))
    keys, values = model.pool.read(2, torch.tensor([5, 90]))
    assert keys.shape == values.shape == (2, 2 * 8)
    assert (untouched == 3.0).all()
    assert (keys != 3.0).all()


def test_tied_heads_and_shards_load_alike(checkpoint: Callable[..., object], packed: Packed) -> None:
    whole = load_causal_lm(checkpoint("llama", tied=True), dtype="float64")
    sharded = load_causal_lm(checkpoint("llama", tied=True, sharded=True), dtype="float64")
    segment = Segment(tokens=random_tokens(9, seed=5), slots=range(9), parents=range(-1, 8), wanted=range(9))
    results = [PackedModel(model, 16).forward([segment]).logits for model in (whole, sharded)]
    assert torch.equal(*results)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_smaller_dtypes_stay_near(dtype: str, checkpoint: Callable[..., object], reference: Reference) -> None:
    tokens = random_tokens(20, seed=6)
    model = PackedModel(load_causal_lm(checkpoint("qwen3"), dtype=dtype), 32)
    model.forward([Segment(tokens=tokens[:11], slots=range(11), parents=range(-1, 10))])
    tail = Segment(tokens=tokens[11:], slots=range(11, 20), parents=range(-1, 8), past_slots=range(11), wanted=[8])
    logits = model.forward([tail]).logits[0].double()
    expected = linear_logits(reference("qwen3"), tokens)[-1]
    tolerance = {"float32": 1e-3, "bfloat16": 0.6, "float16": 0.1}[dtype]
    assert (logits - expected).abs().max() < tolerance


def test_a_plain_call_of_a_model_taken_over_says_what_to_do(packed: Packed) -> None:
    with pytest.raises(TypeError, match=r"run it through PackedModel\.forward"):
        packed("llama").model(torch.tensor([[1]]))


def test_a_model_that_computes_its_attention_itself_is_refused() -> None:
    model = AutoModelForCausalLM.from_config(MambaConfig(num_hidden_layers=1, hidden_size=8, vocab_size=10))
    with pytest.raises(CheckpointError, match="'mamba' computes its attention itself"):
        PackedModel(model, 8)


def test_an_empty_pool_is_refused(packed: Packed) -> None:
    with pytest.raises(ValueError, match="positive capacity"):
        PackedModel(packed("llama").model, 0)


@pytest.mark.cuda
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-2), ("bfloat16", 0.6)])
@every_family
def test_cuda_stays_near(
    family: str, dtype: str, tolerance: float, checkpoint: Callable[..., object], reference: Reference
) -> None:
    model, slots = PackedModel(load_causal_lm(checkpoint(family), "cuda", dtype), CAPACITY), SlotPool(CAPACITY)
    sessions = [Session(slots), Session(slots)]
    model.forward([each.append(random_tokens(20 + n, n)) for n, each in enumerate(sessions)])
    for each in sessions:
        each.commit(len(each.parents) - 1)
    segments = [each.propose([1, 2, 3, 4], [-1, 0, 0, 2]) for each in sessions]
    logits = model.forward(segments).logits.double().cpu()
    expected = torch.stack([row for each in sessions for row in each.expected(reference(family), newest=4)])
    assert (logits - expected).abs().max() < tolerance
