"""Prepacked linear layers compute what plain ones do, and only where they pay."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

from common.models import prepacked
from common.models.checkpoint import load_causal_lm
from common.models.packed import PackedModel
from common.models.parts import head_of, layers_of
from common.models.prepacked import PrepackedHead, PrepackedLinear, prepack, prepack_network, prepacked_head
from common.models.segment import Segment
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from netem.experiments.sizes.memory import resident
from tests.other_families import HUNYUAN_MOE, SERVED

pytestmark = pytest.mark.skipif(
    not prepacked._gains_in_passes(nn.Linear(2, 2)), reason="oneDNN's blocked weights are no gain on this processor"
)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 32, 70])
def test_it_computes_what_a_plain_layer_does(rows: int, bias: bool) -> None:
    torch.manual_seed(rows)
    plain, entering = nn.Linear(96, 48, bias).requires_grad_(False), torch.randn(1, rows, 96)
    torch.testing.assert_close(PrepackedLinear(plain)(entering), plain(entering), rtol=0, atol=1e-5)


def test_its_weight_is_the_plain_one_for_whoever_reads_it_and_is_kept_once() -> None:
    plain = nn.Linear(96, 48)
    prepacked = PrepackedLinear(plain)
    assert torch.equal(prepacked.weight, plain.weight)
    assert list(dict(prepacked.named_parameters())) == ["bias"]
    assert list(dict(prepacked.named_buffers())) == ["packed"]


@pytest.mark.parametrize("family", ["llama", "gpt-oss", "qwen3-moe", HUNYUAN_MOE.name])
def test_a_prepacked_model_gives_the_same_logits(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = make_family_checkpoint(tmp_path_factory.mktemp(family), {**FAMILIES, **SERVED}[family])
    segment = Segment(range(1, 20), range(19), range(-1, 18), wanted=range(19))
    plain, packed = (PackedModel(load_causal_lm(directory), 32, prepacked=how) for how in (False, True))
    assert any(isinstance(module, PrepackedLinear) for module in packed.model.modules())
    assert not any(isinstance(module, PrepackedLinear) for module in plain.model.modules())
    torch.testing.assert_close(packed.forward([segment]).logits, plain.forward([segment]).logits, rtol=0, atol=1e-4)


def test_weights_in_another_dtype_stay_as_they_are(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = make_family_checkpoint(tmp_path_factory.mktemp("llama"), FAMILIES["llama"])
    model = load_causal_lm(directory, dtype=torch.float64)
    prepack(model)
    assert not any(isinstance(module, PrepackedLinear) for module in layers_of(model).modules())


def test_of_a_drafts_network_what_is_wide_is_laid_out_in_the_dtypes_that_gain() -> None:
    multiplies = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    for dtype, is_laid_out in ((torch.float32, True), (torch.bfloat16, multiplies), (torch.float64, False)):
        network = nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 255)).to(dtype)
        entering = torch.randn(1, 3, 256).to(dtype)
        wanted = network(entering)
        prepack_network(network)
        assert [isinstance(each, PrepackedLinear) for each in network] == [is_laid_out, False]
        torch.testing.assert_close(network(entering), wanted, rtol=0, atol=1e-5 if dtype.itemsize > 2 else 0.02)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_laid_out_head_is_a_copy_that_computes_the_same(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepacked, "_WIDE", 0)
    model = load_causal_lm(make_family_checkpoint(tmp_path / family, FAMILIES[family]))
    plain = head_of(model)
    laid_out = prepacked_head(plain)
    assert laid_out is not plain
    states = torch.randn(1, 5, model.config.hidden_size)
    torch.testing.assert_close(laid_out(states), plain(states), rtol=0, atol=1e-4)


def test_a_head_without_room_for_a_copy_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    head = nn.Linear(256, 512, bias=False)
    for free, is_laid_out in ((2**20 - 1, False), (2**20, True), (0, True)):
        monkeypatch.setattr(prepacked, "free_memory_bytes", lambda _, free=free: free)
        made = prepacked_head(head)
        assert isinstance(made, PrepackedHead) == is_laid_out
        assert made.weight is head.weight


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and other libraries keep no memory so")
def test_memory_of_plain_weights_that_another_thread_loaded_goes_back_to_the_system() -> None:
    """As those of a checkpoint do that is converted to float32: a server would hold all of them twice."""

    def load() -> nn.Sequential:
        for size in (8 << 20, 7 << 20):  # after which blocks below 32 MiB come from the heap
            torch.empty(size // 4)
        return nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(64)))

    with ThreadPoolExecutor(1) as thread:
        network = thread.submit(load).result()
        loaded, weights = resident().now, 64 * 512 * 512 * 4
        prepack_network(network)
        assert resident().now - loaded < weights / 4
