"""What runs on a GPU leaves no tensor on the CPU: on a pretended GPU the same answers as on the CPU, to the token; on a
real one too, where there is one."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common.models import attention_backend
from common.models.segment import Segment
from common.models.shipped import shipped_family
from common.protocol.rules import RULES
from common.protocol.sampling import LIKELIEST, Sampling
from common.rounds import RoundsAnswer
from common.weight_only.files import quantise_directory
from common.weight_only.modes import AS_IS, MODES
from netem.experiments.experiment import Request
from netem.experiments.one_device import bench
from netem.experiments.one_device.bench import PAPER_TREE, Bench, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.one_device.prompts import choose
from netem.experiments.references import reference_answer
from server.models import target_loader
from server.models.target_loader import load_target
from tests.common.models.varlen import Varlen
from tests.pretended_gpu import GPU, MPS, MixedDevicesError, is_on_gpu, load_on_cpu_first, pretended_gpu

SHIPPED = Request(0, quick=True)
DRAFTS = {draft.name: draft for draft in find_drafts(SHIPPED)}
EVERY_PROCESSOR = Sampling(0.8, 50, 0.9, 0.01, 1.1, 4, 0.1, 0.1, ((5, 1.0),))


def both(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[str], object], device: torch.device = GPU
) -> tuple[object, object]:
    """What `run` returns on the CPU and on a pretended GPU."""
    monkeypatch.setattr(bench, "load_causal_lm", load_on_cpu_first)
    monkeypatch.setattr(target_loader, "load_causal_lm", load_on_cpu_first)
    monkeypatch.setattr(attention_backend, "find_varlen", lambda device, dtype: Varlen() if _is_half(dtype) else None)
    attention_backend.backend_for.cache_clear()
    here = run("cpu")
    attention_backend.backend_for.cache_clear()
    try:
        with pretended_gpu(monkeypatch, device):
            return here, run(str(device))
    finally:
        attention_backend.backend_for.cache_clear()


def _is_half(dtype: torch.dtype) -> bool:
    return dtype.itemsize < 4


PATHS = find_model_paths(SHIPPED)


@pytest.fixture(scope="module")
def on_cpu() -> Iterator[Bench]:
    """With all drafts, for what every test compares with."""
    with open_bench(PATHS, list(DRAFTS.values())) as opened:
        yield opened


def answer(
    on_cpu: Bench, device: str, draft: ComparedDraft, rule: str = "greedy", sampling: Sampling = LIKELIEST
) -> RoundsAnswer:
    prompt = choose(PATHS.prompts, 1, seed=0)["code"][0]
    with nullcontext(on_cpu) if device == "cpu" else open_bench(PATHS, [draft], device) as opened:
        assert opened.target.pool.device == torch.device(device)
        return opened.answer(draft, PAPER_TREE, opened.tokens(prompt), 8, rule=rule, sampling=sampling).rounds


@pytest.mark.parametrize("name", DRAFTS)
def test_a_drafter_and_its_state_stay_on_the_targets_device(
    name: str, on_cpu: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = both(monkeypatch, lambda device: answer(on_cpu, device, DRAFTS[name]))
    assert there == here


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != AS_IS])
def test_weights_in_few_bits_are_multiplied_where_the_drafter_is(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = DRAFTS["moa, N=1"]
    prompt = choose(PATHS.prompts, 1, seed=0)["code"][0]

    def run(device: str) -> object:
        with open_bench(PATHS, [draft], device) as opened:
            own = draft.directory
            quantised = tmp_path / device.replace(":", "-")
            quantise_directory(opened.bundles[own], mode, quantised)
            few_bits = replace(opened, bundles={own: quantised})
            return few_bits.answer(draft, PAPER_TREE, opened.tokens(prompt), 4).rounds.tokens

    here, there = both(monkeypatch, run)
    assert there == here


@pytest.mark.cuda
@pytest.mark.parametrize("name", DRAFTS)
def test_a_drafter_on_a_gpu_answers_as_on_the_cpu(name: str, on_cpu: Bench) -> None:
    here, there = (answer(on_cpu, device, DRAFTS[name]) for device in ("cpu", "cuda"))
    assert there.tokens == here.tokens


@pytest.mark.parametrize("gpu", [GPU, MPS], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_walks_logits_where_they_are(
    rule: str, gpu: torch.device, on_cpu: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(device: str) -> object:
        return answer(on_cpu, device, DRAFTS["eagle"], rule, EVERY_PROCESSOR)

    here, there = both(monkeypatch, run, gpu)
    assert there == here


@pytest.mark.parametrize(("dtype", "batch_invariant"), [("float32", None), ("bfloat16", None), ("bfloat16", False)])
def test_a_servers_target_is_whole_on_its_device(
    dtype: str, batch_invariant: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(device: str) -> object:
        path = str(shipped_family("demo").target)
        target = load_target(path, device=device, dtype=dtype, capacity=128, threads=1, batch_invariant=batch_invariant)
        target.model.forward([Segment(range(5, 45), slots=range(40), parents=range(-1, 39))])
        below = Segment([7, 8, 9], slots=range(40, 43), parents=[-1, 0, 0], past_slots=range(40), wanted=range(3))
        logits = target.model.forward([below]).logits
        assert is_on_gpu(logits) == (device != "cpu")
        return logits.float().cpu()

    here, there = both(monkeypatch, run)
    torch.testing.assert_close(there, here, rtol=0, atol=0.1 if _is_half(getattr(torch, dtype)) else 1e-4)


def test_what_transformers_generates_for_comparison_is_made_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    target = shipped_family("demo").target

    def run(device: str) -> object:
        return reference_answer(load_on_cpu_first(target, device), [5, 6, 7], (4,), 4).answer

    here, there = both(monkeypatch, run)
    assert there == here


def test_the_pretence_refuses_what_a_gpu_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_gpu(monkeypatch):
        there, here = torch.ones(3, device=GPU), torch.ones(3)
        assert ((there + there).device, here.device, there.cpu().device) == (GPU, torch.device("cpu"), here.device)
        assert here.to(there.device).is_cuda
        assert not here.is_cuda
        assert (there * here.sum()).device == GPU
        for mixed in (lambda: there + here, lambda: here[there > 0], lambda: there.index_select(0, torch.tensor([0]))):
            with pytest.raises(MixedDevicesError):
                mixed()
        with pytest.raises(MixedDevicesError):
            there.numpy()


def test_apples_gpu_refuses_float64_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_gpu(monkeypatch, MPS):
        there = torch.ones(3, device=MPS)
        assert (there.device, there.is_cuda, there.cpu().double().device) == (MPS, False, torch.device("cpu"))
        for doubled in (there.double, lambda: there.to(torch.float64), lambda: torch.ones(1).double().to(MPS)):
            with pytest.raises(TypeError, match="float64"):
                doubled()
