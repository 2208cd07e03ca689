"""Scores of a draft model from measured answers: accept length and speed-up at stated costs, with intervals. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netem.experiments.one_device.bench import TimedRounds
from netem.experiments.one_device.costs import answer_seconds, plain_seconds
from netem.experiments.one_device.intervals import Bootstrap, Estimate, Spent

Answers = Mapping[str, Sequence[TimedRounds]]
"""One system's answers, by category."""

EXPLAINED = (
    "Accept length is committed tokens per pass behind the prompt's own, sums over sums in a category; the mean counts "
    "every category the same. In brackets, 95% intervals by bootstrap over prompts."
)
OWN_TREE = (
    "`medusa` drafts its own tree, chosen by how often its heads are right, in one level: of a tree's bounds, only the "
    "nodes hold for it."
)


@dataclass(frozen=True)
class Score:
    accept: Estimate
    speed_up: Estimate
    accept_by_category: Mapping[str, Estimate]
    speed_up_by_category: Mapping[str, Estimate]
    tokens_per_second: float  # of this machine's own time

    def as_dict(self) -> dict[str, Any]:
        return {
            "accept_length": self.accept.as_dict(),
            "speed_up": self.speed_up.as_dict(),
            "categories": {
                name: {
                    "accept_length": accept.as_dict(),
                    "speed_up": self.speed_up_by_category[name].as_dict(),
                }
                for name, accept in self.accept_by_category.items()
            },
            "tokens_per_second_here": self.tokens_per_second,
        }


def make_score(answers: Answers, depth: int, target_layers: int, bootstrap: Bootstrap, forwards: int = 1) -> Score:
    """depth: the number of the target's layers that the draft model runs. forwards: of draft models, in a level."""
    accepted, speeds = accepts(answers), speed_ups(answers, depth, target_layers, forwards)
    return Score(
        accept=bootstrap.mean(accepted),
        speed_up=bootstrap.mean(speeds),
        accept_by_category={name: bootstrap.category(accepted, name) for name in answers},
        speed_up_by_category={name: bootstrap.category(speeds, name) for name in answers},
        tokens_per_second=tokens_per_second(answers),
    )


def tokens_per_second(answers: Answers) -> float:
    """Of this machine's own time, prompts included."""
    every = [answer for given in answers.values() for answer in given]
    return sum(len(answer.rounds.tokens) for answer in every) / sum(answer.seconds for answer in every)


def bootstrap_for(answers: Answers, seed: int) -> Bootstrap:
    """The bootstrap for this and every other system that answered the same prompts."""
    return Bootstrap({name: len(given) for name, given in answers.items()}, seed)


def accepts(answers: Answers) -> Spent:
    """Committed tokens as gain, passes as cost, without those of the prompt's own pass."""
    return {name: [(answer.gained, answer.rounds.passes - 1) for answer in given] for name, given in answers.items()}


def speed_ups(answers: Answers, depth: int, target_layers: int, forwards: int = 1) -> Spent:
    """Seconds of plain decoding as gain, seconds of drafting and verifying as cost."""
    return {
        name: [
            (plain_seconds(answer.gained), answer_seconds(answer.rounds, depth, target_layers, forwards))
            for answer in given
        ]
        for name, given in answers.items()
    }


def differing(answers: Answers, references: Answers) -> int:
    """The number of answers that differ from their reference in any token."""
    pairs = ((ours, own) for name, given in answers.items() for ours, own in zip(given, references[name], strict=True))
    return sum(ours.rounds.tokens != own.rounds.tokens for ours, own in pairs)
