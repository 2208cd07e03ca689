"""The check of passes against a model's own forward: what it lets through, and that it lets no wrong pass through."""

import copy
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, BertConfig, BloomConfig, MistralConfig

from common.models import agreement, attention, attention_layout, plan
from common.models.agreement import check_agreement
from common.models.ancestry import Ancestry
from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from common.models.layer_attention import Scoring
from common.models.packed import PackedModel
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from tests.families import make_checkpoint
from tests.other_families import MINIMAX_M3
from tests.quantised import make_fp8, make_int4


def _sibling_seen(patch: pytest.MonkeyPatch) -> None:
    """Every node sees its elder siblings."""
    right = Ancestry.seen

    def seen(self: Ancestry, count: int) -> np.ndarray:
        matrix, depths = right(self, len(self.parents)).copy(), self.depths
        elders = (depths[:, None] == depths[None, :]) & np.tri(len(depths), k=-1, dtype=np.bool_)
        return (matrix | elders)[len(depths) - count :]

    patch.setattr(Ancestry, "seen", seen)


def _window_too_wide(patch: pytest.MonkeyPatch) -> None:
    right = attention_layout._first_seen
    patch.setattr(
        attention_layout,
        "_first_seen",
        lambda positions, window, chunk: right(positions, window and window + 1, chunk and chunk + 1),
    )


def _positions(change):
    def break_them(patch: pytest.MonkeyPatch) -> None:
        right = plan.TracedSegment.branch_positions.fget
        patch.setattr(
            plan.TracedSegment, "branch_positions", property(lambda traced: change(right(traced), traced.past))
        )

    return break_them


def _scoring(**lost):
    def break_it(patch: pytest.MonkeyPatch) -> None:
        def make(scaling: float, window: int | None, chunk: int | None, cap: float | None, sinks: object) -> Scoring:
            kept = {"scaling": scaling, "softcap": cap, "sinks_H": sinks} | lost
            return Scoring(sliding_window=window, chunk=chunk, **kept)

        patch.setattr(attention, "Scoring", make)

    return break_it


WRONG = {
    "siblings": ("llama", _sibling_seen, "tree"),
    "window": ("mistral", _window_too_wide, "chunk"),
    "chunk of attention": ("llama4", _window_too_wide, "chunk"),
    "positions behind a past": ("llama", _positions(lambda positions, past: positions + (past > 0)), "chunk"),
    "positions of nodes": ("gpt2", _positions(lambda positions, past: past + np.arange(len(positions))), "tree"),
    "scaling": ("granite", _scoring(scaling=1.0), "chunk"),
    "cap": ("gemma2", _scoring(softcap=None), "chunk"),
    "sinks": ("gpt-oss", _scoring(sinks_H=None), "chunk"),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    made = {}

    def make(family: str):
        if family not in made:
            made[family] = make_family_checkpoint(tmp_path_factory.mktemp(family), FAMILIES[family])
        return made[family]

    return make


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_pass_is_refused(wrong: str, dtype: str, directory, monkeypatch: pytest.MonkeyPatch) -> None:
    family, spoil, form = WRONG[wrong]
    model = load_causal_lm(directory(family), dtype=dtype)
    check_agreement(copy.deepcopy(model))
    spoil(monkeypatch)
    with pytest.raises(CheckpointError) as refused:
        check_agreement(model)
    told = str(refused.value)
    assert told.startswith(
        f"packed passes do not agree with the model type '{model.config.model_type}': the logits of a "
    )
    assert f"of a {form} differ by up to" in told
    assert f"rounding in {dtype} explains" in told
    assert "at position" in told


@pytest.mark.parametrize(
    ("dtype", "texts", "is_refused"),
    [("bfloat16", [0], False), ("bfloat16", range(8), True), ("float32", [0], True)],
)
def test_a_few_rows_of_one_text_refuse_in_single_precision_alone(
    dtype: str, texts: Sequence[int], is_refused: bool, directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where rounding changes the experts of one token: three nodes differ, one more than a quarter."""
    right = agreement.packed_answers

    def answers(packed: PackedModel, vocabulary: int, text: int = 0) -> agreement.Answers:
        found = right(packed, vocabulary, text)
        if text not in texts:
            return found
        tree = found.tree.clone()
        tree[:3] += 10 * torch.randn(3, vocabulary)
        return agreement.Answers(found.chain, tree)

    monkeypatch.setattr(agreement, "packed_answers", answers)
    model = load_causal_lm(directory("mixtral"), dtype=dtype)
    if not is_refused:
        check_agreement(model)
        assert model.config._attn_implementation == attention.ATTENTION
        return
    with pytest.raises(CheckpointError, match="the logits of a tree differ"):
        check_agreement(model)


def test_logits_that_the_head_forgets_to_scale_are_refused(directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.models.packed.head_of", lambda model: model.lm_head)
    with pytest.raises(CheckpointError, match="do not agree with the model type 'cohere'"):
        check_agreement(load_causal_lm(directory("cohere")))


def test_a_window_that_is_longer_than_the_text_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = AutoModelForCausalLM.from_config(_mistral(4096))
    before = copy.deepcopy(model)
    check_agreement(model)
    assert model.config.sliding_window == 4096
    _window_too_wide(monkeypatch)
    with pytest.raises(CheckpointError, match="do not agree"):
        check_agreement(before)
    assert before.config.sliding_window == 4096


def test_a_model_that_looks_ahead_is_refused() -> None:
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6, "intermediate_size": 96}
    model = AutoModelForCausalLM.from_config(BertConfig(**sizes, vocab_size=300)).eval()
    with pytest.raises(CheckpointError, match="packed passes do not agree with the model type 'bert'"):
        check_agreement(model)


def test_a_model_with_an_attention_of_its_own_is_refused() -> None:
    model = AutoModelForCausalLM.from_config(BloomConfig(vocab_size=300, hidden_size=48, n_layer=2, n_head=6)).eval()
    with pytest.raises(CheckpointError, match=r"the model type 'bloom' .*choose another"):
        check_agreement(model)


def test_attention_that_chooses_keys_beyond_the_text_of_the_check_is_refused(tmp_path) -> None:
    model = load_causal_lm(make_family_checkpoint(tmp_path, MINIMAX_M3))
    assert model.config.index_block_size > 32  # tokens of the text, so that every key is chosen there
    with pytest.raises(CheckpointError) as refused:
        check_agreement(model)
    assert str(refused.value) == (
        "the attention of the model type 'minimax_m3_vl_text' depends on 'block_indices', which packed passes do not "
        "compute; choose another checkpoint"
    )


def test_a_mask_that_a_family_makes_for_itself_is_refused(directory) -> None:
    model = load_causal_lm(directory("llama"))
    for layer in model.model.layers:
        right = layer.self_attn.forward
        layer.self_attn.forward = lambda *given, right=right, **named: right(
            *given, **named | {"attention_mask": torch.zeros(1, 1, 1, 1)}
        )
    with pytest.raises(CheckpointError, match="of the model type 'llama' depends on 'attention_mask'"):
        PackedModel(model, 10)


def test_windows_that_differ_by_layer_are_refused_where_the_family_knows_one() -> None:
    config = _mistral(8)
    config.per_layer_config = {1: {"sliding_window": 6}}
    with pytest.raises(CheckpointError, match="the model type 'mistral' does not run in packed passes"):
        check_agreement(AutoModelForCausalLM.from_config(config))


def test_logits_that_are_no_numbers_are_told_as_such() -> None:
    model = AutoModelForCausalLM.from_config(_mistral(8))
    model.lm_head.weight.data[3] = torch.nan
    with pytest.raises(CheckpointError, match="'mistral' computes logits that are not finite in float32"):
        check_agreement(model)


def test_too_little_memory_is_no_fault_of_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr("common.models.agreement.packed_answers", fail)
    with pytest.raises(torch.OutOfMemoryError):
        check_agreement(AutoModelForCausalLM.from_config(_mistral(8)))


@pytest.mark.parametrize("family", ["gemma2", "mixtral"])
def test_weights_quantised_on_loading_agree(family: str, directory) -> None:
    check_agreement(load_causal_lm(directory(family), dtype="bfloat16", quantise="int8"))


@pytest.mark.parametrize("make", [make_fp8, make_int4])
def test_quantised_checkpoints_agree(make, tmp_path) -> None:
    stored = make(tmp_path / "stored", make_checkpoint(tmp_path / "plain", "qwen2"))
    check_agreement(load_causal_lm(stored, dtype="bfloat16"))


def _mistral(window: int) -> MistralConfig:
    torch.manual_seed(0)
    return MistralConfig(
        vocab_size=300,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        sliding_window=window,
        initializer_range=0.2,
    )
