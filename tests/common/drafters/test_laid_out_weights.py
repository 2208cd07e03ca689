"""Every kind drafts alike whether its weights are laid out for products with few rows or not."""

from collections.abc import Iterator

import pytest

from common.models import prepacked
from common.models.prepacked import PrepackedLinear
from common.rounds import RoundsAnswer
from netem.experiments.experiment import Request
from netem.experiments.one_device.bench import PAPER_TREE, Bench, open_bench
from netem.experiments.one_device.compared_drafts import find_drafts, find_model_paths
from netem.experiments.one_device.prompts import choose

SHIPPED = Request(0, quick=True)
DRAFTS = {draft.name: draft for draft in find_drafts(SHIPPED, with_weightless=False)}
EVERY, NONE = 0, 1 << 60


PATHS = find_model_paths(SHIPPED)


@pytest.fixture(scope="module")
def opened() -> Iterator[Bench]:
    """With all drafts, each of which is loaded for every answer, and laid out then."""
    with open_bench(PATHS, list(DRAFTS.values())) as opened:
        yield opened


@pytest.mark.parametrize("name", DRAFTS)
def test_a_tree_is_the_same(name: str, opened: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    forward = PrepackedLinear.forward

    def counted(layer, entering):  # type: ignore[no-untyped-def]
        calls.append(1)
        return forward(layer, entering)

    def answer(wide: int) -> RoundsAnswer:
        monkeypatch.setattr(prepacked, "_WIDE", wide)
        calls.clear()
        tokens = opened.tokens(choose(PATHS.prompts, 1, seed=0)["code"][0])
        return opened.answer(DRAFTS[name], PAPER_TREE, tokens, 12).rounds

    monkeypatch.setattr(PrepackedLinear, "forward", counted)
    plain = answer(NONE)
    assert not calls
    assert answer(EVERY) == plain
    assert calls
