"""Every kind of drafter continues behind its own tokens while offline, and afterwards drafts as if it had not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.drafters.lookahead import LookaheadDrafter
from common.drafters.lookup import LookupDrafter
from common.drafters.ouroboros import OuroborosDrafter
from common.protocol.messages import State
from common.protocol.sampling import LIKELIEST, Sampling
from common.protocol.views import Proposal, TreeView
from tests.common.drafters import test_eagle, test_independent, test_medusa, test_moa, test_path_heads
from tests.families import make_checkpoint

PROMPT = (11, 45, 7, 201, 99, 45, 7)
ONE = Expansion(breadth=1, children=8, nodes=1, least_probability=1e-30)
RULES = [("greedy", LIKELIEST), ("coupled", Sampling(1.0, seed=5))]
NAMES = ("lookup", "lookahead", "ouroboros", "independent", "eagle", "hydra++", "clover", "medusa", "moa 0", "moa 1")


@dataclass(frozen=True)
class Kind:
    """A way to make fresh drafters of a kind, and the draft state of all positions but the last."""

    make: Callable[[], Drafter]
    states: tuple[State, ...] = ()


@pytest.fixture(scope="module")
def kinds(tmp_path_factory) -> dict[str, Kind]:
    folder = tmp_path_factory.mktemp("drafts")
    independent = make_checkpoint(folder / "independent", "llama", vocab=test_independent.VOCAB)
    eagle = test_eagle.Scene(folder)
    torch.manual_seed(0)
    heads = test_medusa.MedusaDraft(
        test_medusa.MedusaConfig(test_medusa.HIDDEN, test_medusa.VOCAB, test_medusa.ACCURACIES)
    ).double()
    moas = {depth: test_moa.Scene(folder / f"moa-{depth}", "llama", depth) for depth in (0, 1)}
    paths = {name: test_path_heads.Scene(folder / name, name) for name in ("hydra++", "clover")}
    before_root = len(PROMPT) - 1
    return {
        "lookup": Kind(LookupDrafter),
        "lookahead": Kind(LookaheadDrafter),
        "ouroboros": Kind(OuroborosDrafter),
        "independent": Kind(lambda: test_independent.drafter_of(independent)),
        "eagle": Kind(eagle.drafter, (eagle.frame(0, before_root),)),
        "medusa": Kind(lambda: test_medusa.drafter_of(heads), (test_medusa.frame(eagle.hidden, 0, before_root),)),
        **{
            name: Kind(partial(scene.drafter, breadth=3), (scene.frame(0, before_root),))
            for name, scene in paths.items()
        },
        **{f"moa {depth}": Kind(scene.drafter, tuple(scene.frames(0, before_root))) for depth, scene in moas.items()},
    }


def draft(drafter: Drafter, tokens: Sequence[int], how, provisional=0, states=()) -> list[Proposal]:
    rule, sampling = how
    return list(drafter.draft(TreeView(tuple(tokens), (), rule, sampling, provisional=provisional), states))


def write(drafter: Drafter, how, most: int, states=()) -> list[int]:
    """Writes as the client does while offline: one token after another, until the drafter has nothing to propose."""
    whole, drafter.expansion = drafter.expansion, ONE
    run: list[int] = []
    while len(run) < most:
        proposals = draft(drafter, [*PROMPT, *run], how, len(run), states)
        states = ()
        if not proposals:
            break
        assert [proposal.parent for proposal in proposals] == [0]
        run.append(proposals[0].token)
    drafter.expansion = whole
    return run


@pytest.mark.parametrize("how", RULES, ids=["greedy", "coupled"])
@pytest.mark.parametrize("name", NAMES)
def test_back_at_the_committed_tokens_it_proposes_what_a_fresh_one_does(kinds, name, how):
    kind = kinds[name]
    drafter = kind.make()
    assert write(drafter, how, 12, kind.states)
    assert draft(drafter, PROMPT, how) == draft(kind.make(), PROMPT, how, states=kind.states)


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_on_behind_what_the_target_made_of_its_run(kinds, name):
    """Compares with a fresh drafter to which the same tokens were committed: the first half of the run, and one token
    more."""
    kind, how = kinds[name], RULES[0]
    drafter, fresh = kind.make(), kind.make()
    run = write(drafter, how, 8, kind.states)
    committed = (*PROMPT, *run[: len(run) // 2], 3)
    draft(fresh, PROMPT, how, states=kind.states)
    for end in range(len(PROMPT) + 1, len(committed)):
        draft(fresh, committed[:end], how)
    assert draft(drafter, committed, how) == draft(fresh, committed, how)


@pytest.mark.parametrize("how", RULES, ids=["greedy", "coupled"])
@pytest.mark.parametrize("name", NAMES)
def test_how_long_it_wrote_makes_no_difference(kinds, name, how):
    kind = kinds[name]
    long = write(kind.make(), how, 12, kind.states)
    drafter = kind.make()
    assert write(drafter, how, 3, kind.states) == long[:3]
    assert write(drafter, how, 12) == long
