"""`formula`: accept length and speed-up of drafted chains beside what speculative decoding's own formulas predict from
the acceptance rate alone (Leviathan et al. 2023, arXiv 2211.17192).

With acceptance rate a, chains of g tokens and levels of c passes, a pass commits (1 - a^(g+1)) / (1 - a) tokens, and
decoding is (1 - a^(g+1)) / ((1 - a)(gc + 1)) times as fast, if every token is accepted with the same chance,
independently of those before it. The acceptance rate is read off both models' probabilities along the same answers,
without any drafting loop; the rest is measured in rounds of the real client and server on the virtual clock.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from transformers import PreTrainedModel

from client.answering import AnswerOptions
from client.drafting.policies import Policy
from common.drafters.best_first import Expansion
from common.drafters.ranking import DRAWN_FROM, SHARPENED
from common.models.checkpoint import load_causal_lm
from common.protocol.sampling import LIKELIEST, Sampling
from common.stated_costs import STATED
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.compared_drafts import find_drafts, find_model_paths
from netem.experiments.one_device.intervals import Bootstrap, Estimate, Spent
from netem.experiments.one_device.prompts import Workload, in_words
from netem.experiments.speed.costs import VIRTUAL_CLOCK
from netem.experiments.speed.runs import Asker, TimedAnswer, fault_of
from netem.experiments.speed.systems import INDEPENDENT, System
from netem.experiments.speed.testbed import Testbed, TokenPrompts, open_testbed
from netem.links.profiles import find_profile
from netem.virtual.clock import run_virtually
from netem.virtual.server import PACE
from netem.virtual.stream import HANDLING_S

FULL = Workload(prompts=4, tokens=96)
QUICK = Workload(prompts=1, tokens=24)

CHAINS = (1, 2, 3, 4, 5, 7)
"""Drafted tokens of a round."""

RULES = {"greedy": LIKELIEST, "speculative": Sampling(temperature=1.0)}
"""The rules that are compared, and what each samples with."""

COST_OF_A_LEVEL = STATED.draft_seconds / PACE.per_pass
"""c in the formula: a drafted token's time as a share of a pass."""

HEADINGS = (
    "rule",
    "chain",
    "acceptance rate",
    "accept length",
    "predicted",
    "measured / predicted",
    "speed-up",
    "predicted",
    "measured / predicted",
)

_NO_LINK = "none"
_NEVER = 1e-12  # a probability below which nothing is left out of a chain

Answers = Mapping[str, Sequence[TimedAnswer]]
"""Answers by the category of their prompts."""


def expected_accept_length(rate: float, chain: int) -> float:
    """Tokens that a pass commits: 1 + a + ... + a^chain (equation 1)."""
    return sum(rate**accepted for accepted in range(chain + 1))


def expected_speed_up(rate: float, chain: int, cost: float) -> float:
    """Over decoding one by one, where a drafted token takes `cost` of a pass (theorem 3.8)."""
    return expected_accept_length(rate, chain) / (chain * cost + 1)


def acceptance_rate(target: torch.Tensor, draft: torch.Tensor, temperature: float) -> float:
    """The mean chance that a token drafted for a position is accepted: sum(min(p, q)) (corollary 3.6), at temperature 0
    the share of positions where both models have the same likeliest token. q is what our drafters draw from: the
    draft's likeliest tokens, sharpened.

    target, draft: logits of the same positions, [positions, vocabulary].
    """
    if not temperature:
        return float((target.argmax(-1) == draft.argmax(-1)).double().mean())
    p = (target.double() / temperature).softmax(-1)
    likeliest = (SHARPENED * draft.double() / temperature).topk(min(DRAWN_FROM, draft.shape[-1]))
    return float(torch.minimum(p.gather(-1, likeliest.indices), likeliest.values.softmax(-1)).sum(-1).mean())


@dataclass(frozen=True)
class ChainScore:
    """Chains of one length under one rule. rates: acceptance rates by category."""

    rule: str
    chain: int
    rates: Mapping[str, float]
    accept: Estimate
    speed_up: Estimate

    @property
    def expected_accept(self) -> float:
        """The mean over categories of what each one's acceptance rate predicts."""
        return fmean(expected_accept_length(rate, self.chain) for rate in self.rates.values())

    @property
    def expected_speed_up(self) -> float:
        return fmean(expected_speed_up(rate, self.chain, COST_OF_A_LEVEL) for rate in self.rates.values())


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError where the folder of models has no draft `independent`."""
    workload = QUICK if request.quick else FULL
    target, draft = (load_causal_lm(path, "cpu") for path in models(request).values())
    testbed = await asyncio.to_thread(open_testbed, request, workload.prompts)
    scores, faults = [], []
    runs = [(rule, chain) for rule in RULES for chain in CHAINS]
    for number, (rule, chain) in enumerate(runs):
        advance(f"{rule}, chains of {chain}", number / len(runs))
        given = await asyncio.to_thread(_answers, testbed, chain, rule, workload.tokens, request.seed)
        rates = _rates(testbed.prompts, given, target, draft, rule)
        bootstrap = Bootstrap({name: len(each) for name, each in given.items()}, request.seed)
        scores.append(ChainScore(rule, chain, rates, bootstrap.mean(_accepts(given)), bootstrap.mean(_speeds(given))))
        faults += [fault for category in given.values() for each in category if (fault := fault_of(each.answer))]
    return make_report(scores, {name: len(chosen) for name, chosen in testbed.prompts.items()}, workload.tokens, faults)


def models(request: Request) -> dict[str, Path]:
    """Target and draft. Raises MisuseError where one is missing."""
    paths = find_model_paths(request)
    find_drafts(replace(request, drafts=(INDEPENDENT.name,)))  # says how to train one
    return {"target": paths.target, INDEPENDENT.name: paths.folder / INDEPENDENT.name}


def _rounds(chain: int) -> System:
    """Rounds in lock-step, each of one chain."""
    tree = Expansion(breadth=1, children=1, nodes=chain, least_probability=_NEVER)
    policy = Policy(f"chains of {chain}", drafts=True, round_levels=chain, idle="lockstep", tree=tree)
    return System(policy.name, policy, "lockstep", INDEPENDENT)


def _answers(testbed: Testbed, chain: int, rule: str, new_tokens: int, seed: int) -> Answers:
    """Answers with chains of this length, one prompt after the other, each with a seed of its own."""
    system = _rounds(chain)

    async def main() -> Answers:
        async with testbed.server.serve() as engine:
            answers: dict[str, list[TimedAnswer]] = {}
            for category, prompts in testbed.prompts.items():
                for tokens in prompts:
                    sampling = replace(RULES[rule], seed=seed + sum(tokens))
                    options = AnswerOptions(
                        system.policy, new_tokens, rule, system.idle, STATED.draft_seconds, sampling
                    )
                    asker = Asker(testbed, engine, system, options)
                    answers.setdefault(category, []).append(await asker.ask_timed(find_profile(_NO_LINK), tokens))
            return answers

    return run_virtually(main())


def _rates(
    prompts: TokenPrompts, answers: Answers, target: PreTrainedModel, draft: PreTrainedModel, rule: str
) -> dict[str, float]:
    """The acceptance rate in each category along these answers, first tokens left out: the prompt's own pass chooses
    those."""
    rates = {}
    for category, given in answers.items():
        rows = [
            _answer_logits((target, draft), tokens, each.answer.tokens)
            for tokens, each in zip(prompts[category], given, strict=True)
        ]
        of_target, of_draft = (torch.cat(logits) for logits in zip(*rows, strict=True))
        rates[category] = acceptance_rate(of_target, of_draft, RULES[rule].temperature)
    return rates


@torch.inference_mode()
def _answer_logits(
    models: Sequence[PreTrainedModel], prompt: Sequence[int], answer: Sequence[int]
) -> list[torch.Tensor]:
    """Each model's logits for all tokens of an answer but the first, [tokens - 1, vocabulary]: as many columns as the
    smaller vocabulary, since checkpoints of one tokenizer may be padded."""
    text = torch.tensor([[*prompt, *answer[:-1]]])
    logits = [model(text).logits[0, len(prompt) :].float() for model in models]
    columns = min(each.shape[-1] for each in logits)
    return [each[:, :columns] for each in logits]


def _accepts(answers: Answers) -> Spent:
    """Tokens as gain and passes as cost, both behind the first token."""
    return {
        name: [(len(each.answer.tokens) - 1, each.answer.stats.passes - 1) for each in given]
        for name, given in answers.items()
    }


def _speeds(answers: Answers) -> Spent:
    """Seconds of decoding one by one as gain and seconds from the first to the last commit as cost."""
    return {
        name: [((len(each.answer.tokens) - 1) * PACE.cost(1), each.commits[-1] - each.commits[0]) for each in given]
        for name, given in answers.items()
    }


def make_report(
    scores: Sequence[ChainScore], sizes: Mapping[str, int], max_new_tokens: int, faults: Sequence[str]
) -> Report:
    return Report(
        title="Chains of tokens beside the formulas of speculative decoding",
        headings=HEADINGS,
        rows=[_cells(score) for score in scores],
        remarks=(
            "Predicted from the acceptance rate a alone, with chains of g tokens: accept length (1 - a^(g+1)) / "
            f"(1 - a), speed-up that over gc + 1, where a drafted token takes c = {COST_OF_A_LEVEL:.3f} of a pass "
            "(Leviathan et al. 2023). Both assume that every token is accepted with the same chance, independently. A "
            f"round's two messages, {2000 * HANDLING_S:g} ms, are not in them.",
            "The acceptance rate is read off both models' probabilities along the same answers, one forward of each: "
            "'greedy' counts where both have the same likeliest token, 'speculative' is the mean of sum(min(p, q)) at "
            f"temperature 1, where drafters draw from q: their {DRAWN_FROM} likeliest tokens, probabilities to the "
            f"power of {SHARPENED:g}. What is drawn differs from run to run.",
            f"Measured with the draft `{INDEPENDENT.name}` in rounds of one chain each, without a link, behind the "
            "first token; the last round of an answer counts whole though its end may cut it. Means over categories, "
            f"and the prediction is that of each category: {in_words(sizes)} prompts, at most {max_new_tokens} tokens "
            "each. In brackets, 95% intervals by bootstrap over prompts.",
            VIRTUAL_CLOCK,
        ),
        results={
            "prompts": dict(sizes),
            "cost_of_a_level": COST_OF_A_LEVEL,
            "rows": [_result(score) for score in scores],
        },
        faults=faults,
    )


def _cells(score: ChainScore) -> list[str]:
    return [
        score.rule,
        str(score.chain),
        f"{fmean(score.rates.values()):.3f}",
        str(score.accept),
        f"{score.expected_accept:.2f}",
        f"{score.accept.value / score.expected_accept:.2f}",
        f"{score.speed_up.value:.2f}x",
        f"{score.expected_speed_up:.2f}x",
        f"{score.speed_up.value / score.expected_speed_up:.2f}",
    ]


def _result(score: ChainScore) -> dict[str, Any]:
    return {
        "rule": score.rule,
        "chain": score.chain,
        "acceptance_rate": fmean(score.rates.values()),
        "acceptance_rates": dict(score.rates),
        "accept_length": score.accept.as_dict(),
        "predicted_accept_length": score.expected_accept,
        "accept_length_over_predicted": score.accept.value / score.expected_accept,
        "speed_up": score.speed_up.as_dict(),
        "predicted_speed_up": score.expected_speed_up,
        "speed_up_over_predicted": score.speed_up.value / score.expected_speed_up,
    }
