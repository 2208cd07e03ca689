import pytest

from common.models.errors import CheckpointError
from netem.experiments.one_device.bench import CHAIN, PAPER_TREE, ask_all, open_bench
from netem.experiments.one_device.compared_drafts import find_drafts, find_model_paths
from netem.experiments.one_device.prompts import choose
from tests.families import make_checkpoint
from tests.netem.experiments.one_device.folder import make_folder

NEW_TOKENS = 12


@pytest.fixture(scope="module")
def bench_and_drafts(folder):
    from netem.experiments.experiment import Request

    request = Request(seed=0, quick=True, models=folder)
    drafts = find_drafts(request)
    with open_bench(find_model_paths(request), drafts) as bench:
        yield bench, {draft.name: draft for draft in drafts}


@pytest.mark.parametrize("name", ["lookup", "draft", "eagle", "moa, N=0", "moa, N=1"])
@pytest.mark.parametrize("tree", [CHAIN, PAPER_TREE])
def test_every_draft_gives_the_targets_own_answer(bench_and_drafts, name, tree):
    bench, drafts = bench_and_drafts
    tokens = [7, 9, 7, 9, 11]
    plain = bench.plain(tokens, NEW_TOKENS)
    answer = bench.answer(drafts[name], tree, tokens, NEW_TOKENS)
    assert answer.rounds.tokens == plain.rounds.tokens
    assert plain.rounds.passes == len(plain.rounds.tokens)
    assert plain.rounds.packed == (1,) * plain.gained
    assert (answer.rounds.state_bytes > 0) == (drafts[name].kind.state is not None)
    assert len(answer.rounds.packed) == answer.rounds.passes - 1
    assert max(answer.rounds.packed) <= 1 + tree.nodes


def test_a_draft_that_is_always_right_fills_its_chain(bench_and_drafts):
    bench, drafts = bench_and_drafts
    answer = bench.answer(drafts["draft"], CHAIN, [5, 6, 7], 1 + 5 * 4)
    assert answer.rounds.accept_length == 5
    assert set(answer.rounds.packed) == {5}


def test_a_deeper_draft_gets_more_state(bench_and_drafts):
    bench, drafts = bench_and_drafts
    sizes = [
        bench.answer(drafts[f"moa, N={depth}"], CHAIN, list(range(40)), 4, "float16").rounds.state_bytes
        for depth in (0, 1)
    ]
    assert sizes[1] > 1.5 * sizes[0]


async def test_every_system_answers_every_prompt(bench_and_drafts, folder):
    bench, drafts = bench_and_drafts
    prompts = choose(folder / "prompts.jsonl", 1, seed=0)
    shares = []
    systems = {
        name: (lambda tokens, name=name: bench.answer(drafts[name], CHAIN, tokens, 4)) for name in ("lookup", "eagle")
    }
    results = await ask_all(systems, bench.tokenised(prompts), lambda doing, share: shares.append(share))
    assert {name: {category: len(given) for category, given in of.items()} for name, of in results.items()} == {
        name: dict.fromkeys(prompts, 1) for name in systems
    }
    assert shares == sorted(shares)
    assert shares[-1] < 1


def test_a_draft_of_another_target_is_refused(tmp_path, request_for):
    folder = make_folder(tmp_path)
    make_checkpoint(folder / "target", "llama", seed=9)
    from netem.experiments.experiment import Request

    request = Request(seed=0, quick=True, models=folder)
    with (
        pytest.raises(CheckpointError, match="trained for another target"),
        open_bench(find_model_paths(request), find_drafts(request)),
    ):
        pass
