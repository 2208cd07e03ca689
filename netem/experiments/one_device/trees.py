"""`trees`: accept length and speed-up over breadth, depth and size of the tree, for each draft model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.bench import Tree, ask_all, open_bench
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths
from netem.experiments.one_device.costs import IN_WORDS
from netem.experiments.one_device.prompts import choose, in_words
from netem.experiments.one_device.scores import EXPLAINED, OWN_TREE, Score, bootstrap_for, make_score

HEADINGS = ("draft", "breadth", "depth", "nodes", "accept length", "speed-up", "levels/round", "tokens/s here")


@dataclass(frozen=True)
class TreeWorkload:
    prompts: int  # of each category
    tokens: int
    trees: Sequence[Tree]


def grid(breadths: Sequence[int], depths: Sequence[int], sizes: Sequence[int]) -> list[Tree]:
    """All distinct combinations: of a size that a tree cannot reach, the most nodes that it can have."""
    combined = [
        (breadth, depth, min(nodes, most_nodes(breadth, depth)))
        for breadth in breadths
        for depth in depths
        for nodes in sizes
    ]
    return [Tree(*sizes) for sizes in dict.fromkeys(combined)]


def most_nodes(breadth: int, depth: int) -> int:
    """Of a tree without a bound on its nodes: the last level of a round takes all candidates (`Expansion.filling`),
    `breadth` of the root and of each node of the levels before it."""
    return breadth * (1 + breadth * (depth - 1))


FULL = TreeWorkload(prompts=6, tokens=96, trees=grid((1, 4, 8, 16), (2, 4, 6, 8), (16, 62)))
QUICK = TreeWorkload(prompts=1, tokens=16, trees=grid((1, 8), (2, 6), (62,)))


@dataclass(frozen=True)
class TreeScore:
    draft: ComparedDraft
    tree: Tree
    score: Score
    levels_per_round: float


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request, with_weightless=False)
    prompts = choose(paths.prompts, workload.prompts, request.seed)
    with open_bench(paths, drafts) as bench:
        systems = {
            (each, tree): partial(bench.answer, each, tree, new_tokens=workload.tokens)
            for each in drafts
            for tree in workload.trees
        }
        answers = await ask_all(systems, bench.tokenised(prompts), advance, request.steps)
        layers = bench.layers
    bootstrap = bootstrap_for(next(iter(answers.values())), request.seed)
    measured = []
    for (draft, tree), given in answers.items():
        rounds = [answer.rounds for category in given.values() for answer in category]
        per_round = sum(each.levels for each in rounds) / max(1, sum(each.passes - 1 for each in rounds))
        score = make_score(given, draft.depth, layers, bootstrap, draft.forwards)
        measured.append(TreeScore(draft, tree, score, per_round))
    return make_report(measured, {name: len(chosen) for name, chosen in prompts.items()}, workload.tokens)


def make_report(measured: Sequence[TreeScore], sizes: Mapping[str, int], max_new_tokens: int) -> Report:
    best = {
        name: max((each for each in measured if each.draft.name == name), key=lambda each: each.score.speed_up.value)
        for name in dict.fromkeys(each.draft.name for each in measured)
    }
    return Report(
        title="Breadth, depth and size of the tree",
        headings=HEADINGS,
        rows=[_cells(each, each is best[each.draft.name]) for each in measured],
        remarks=(
            EXPLAINED,
            f"Greedy, at most {max_new_tokens} tokens of an answer; prompts held out from training: {in_words(sizes)}.",
            f"Speed-ups over decoding one by one at stated costs: {IN_WORDS}. In bold, each draft's fastest tree.",
            "A level adds at most 'breadth' nodes, the likeliest of the whole tree, and the last one as many as fit; "
            "'nodes' bounds all levels. " + OWN_TREE,
        ),
        results={
            "prompts": dict(sizes),
            "drafts": {
                name: [
                    {
                        "breadth": each.tree.breadth,
                        "depth": each.tree.depth,
                        "nodes": each.tree.nodes,
                        "levels_per_round": each.levels_per_round,
                        **each.score.as_dict(),
                    }
                    for each in measured
                    if each.draft.name == name
                ]
                for name in best
            },
        },
    )


def _cells(each: TreeScore, is_best: bool) -> list[str]:
    speed_up = f"{each.score.speed_up.value:.2f}x"
    return [
        each.draft.name,
        str(each.tree.breadth),
        str(each.tree.depth),
        str(each.tree.nodes),
        str(each.score.accept),
        f"**{speed_up}**" if is_best else speed_up,
        f"{each.levels_per_round:.1f}",
        f"{each.score.tokens_per_second:.1f}",
    ]
