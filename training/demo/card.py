"""The model card: what the demo target is, what it was trained on, and what was measured.

What may live here: the card's text, made from finished numbers. It may not train, evaluate or read files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from training.demo.answering import LONGEST_ANSWER_TOKENS
from training.demo.batching import ROW_LENGTHS
from training.demo.corpus import TOKEN_SHARES
from training.demo.evaluate import Scores, SetScore
from training.demo.public_data import SOURCES
from training.demo.registry import FIRST_HELD_OUT, FURTHER_HELD_OUT, families
from training.demo.split import HELD_OUT_SHARE
from training.demo.training_loop import TargetLoopSettings, TargetProgress

RECIPE = "Recipe"


@dataclass(frozen=True)
class Trained:
    """One finished run: its model's size, the settings it ran under, how far it came, and the recipe section of the
    card whose weights it went on from, or "" where it began from nothing."""

    parameters: int
    settings: TargetLoopSettings
    progress: TargetProgress
    earlier: str = ""
    device: str = "cpu"
    batch_tokens: int = 4096


def target_card(trained: Trained, scores: Scores, seed: int, public: Sequence[str]) -> str:
    """The target's README, in Markdown."""
    return "\n\n".join(
        [
            heading(trained),
            "A very small language model for trying Outrider out. It writes short Python functions, works out word "
            "problems, answers questions on a short text, rewrites texts in another form, tells stories and chats. It "
            "does so in the manner of the generators it was trained on; outside of them, expect nonsense. How often "
            "it is right within them is measured below.",
            data_section(public),
            recipe_section(trained, seed),
            measured_section(scores),
            examples_section(scores),
        ]
    )


def heading(trained: Trained) -> str:
    front = "---\nlicense: apache-2.0\nlanguage: en\nlibrary_name: transformers\n---"
    size = f"{trained.parameters:,} parameters, Llama architecture, stored in bfloat16."
    return f"{front}\n\n# Outrider demo target\n\n{size}"


def data_section(public: Sequence[str]) -> str:
    rows = [
        "| code, math, reading, rewriting, stories, chat | the generators in `training/demo` | Apache-2.0 |",
        *(f"| `{source.file}` | {source.origin} | {source.licence} |" for source in SOURCES if source.file in public),
    ]
    *most, last = (f"{share}% {category}" for category, share in TOKEN_SHARES.items())
    return (
        "## Data\n\n| data | origin | licence |\n|---|---|---|\n"
        + "\n".join(rows)
        + f"\n\nThe tokens are about {', '.join(most)} and {last}. "
        "Generated conversations are drawn fresh for every step. Small talk was written by hand, and which of its "
        "answers is given is drawn. In all other generated conversations, what a prompt leaves open, such as the "
        "wording of an answer, is decided by words of the prompt and not by chance, except for the argument of an "
        f"example in code, and one wording in {HELD_OUT_SHARE}, by a hash of the prompt, is never trained on. "
        f"Code comes from {len(families())} families. Two sets of them are never trained on. The "
        f"first {len(FIRST_HELD_OUT)} were chosen before the "
        f"families were composed from parts: {quoted_names(FIRST_HELD_OUT)}. Their parts were then given to other "
        f"families, with these in view. The further {len(FURTHER_HELD_OUT)} were chosen among the composed families: "
        f"{quoted_names(FURTHER_HELD_OUT)}."
    )


def quoted_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def recipe_section(trained: Trained, seed: int) -> str:
    progress, settings = trained.progress, trained.settings
    start = "This run went on from trained weights, with their tokenizer; how they came about is said below. "
    earlier = f"\n\n### The weights it went on from\n\n{trained.earlier}"
    whole = "tokens" if settings.seconds == math.inf else "tokens or of the time, whichever ended first"
    return (
        f"## {RECIPE}\n\n{start if trained.earlier else ''}Seed {seed}. {progress.step:,} steps, "
        f"{progress.tokens:,} tokens ({progress.learned_tokens:,} of them answers), {progress.seconds / 60:.0f} "
        f"minutes on {'CPU' if trained.device == 'cpu' else 'a GPU'} at {progress.tokens / progress.seconds:,.0f} "
        f"tokens/s. Loss: cross-entropy on the answers only; "
        f"{progress.loss:.3f} nats per answer token at the end, as a moving average over the mixture. Muon at a "
        f"peak rate of {settings.matrix_rate:g} for the matrices of the layers, weight decay "
        f"{settings.weight_decay:g}; AdamW at {settings.vector_rate:g} for embeddings and norms; "
        f"{settings.warmup_steps} steps of warm-up, linear decay to zero over the last {settings.decay_share:.0%} of "
        f"the {whole}, float32 weights with bfloat16 autocast where that is faster. Each row of a batch holds one "
        f"conversation of at most {ROW_LENGTHS[-1]} tokens; batches of "
        f"about {trained.batch_tokens:,} tokens group conversations of similar length."
        f"{earlier if trained.earlier else ''}"
    )


def recipe_of(card: str) -> str:
    """The text of the recipe section of a card, or what to say where it has none."""
    _, found, rest = card.partition(f"## {RECIPE}\n\n")
    return rest.partition("\n## ")[0].strip() if found else "Their card does not say."


def measured_section(scores: Scores) -> str:
    rows = "\n".join(set_row(name, score) for name, score in scores.sets.items())
    failed = "\n\n".join(
        f"Failed/asked, {name}: {listed(score.failed_families)}."
        for name, score in scores.sets.items()
        if score.right is not None
    )
    return (
        "## Measured\n\nOn the weights as saved here, loaded and computed in float32, greedy, at most "
        f"{LONGEST_ANSWER_TOKENS} new tokens, on held-out prompts. Right means: code passes tests that were computed "
        "by running the generator's own answer, where no constant would pass them; the last number of a math answer is "
        "the result, which for a list of sums is that of the last one; the last sentence "
        "of a reading answer holds what was asked for and no competing value, or refuses where the text does not say; "
        "a rewriting ends in the wanted text, word for word, so that another good wording counts as wrong. No program "
        "judges stories and chat, and none of their families is held out. "
        "Verbatim means the generator's own answer, word for word. A held-out prompt has a wording that training never "
        "saw; its parts all occurred, so this measures filling in known patterns, and only the held-out "
        "families measure recombination: in code, reading and rewriting each of their parts is trained on, but not "
        "together, and in math the same sums stand in other stories. Exercises (sums, look-up "
        "in lists, editing of lists) are judged apart from the tasks that they prepare for. Only the first exchange of "
        "a conversation is judged.\n\n"
        "| prompts | count | right | verbatim | median answer tokens | looping | ended by itself | loss |\n"
        f"|---|---|---|---|---|---|---|---|\n{rows}\n\nAn answer counts as looping when some stretch repeats with a "
        "period of at most 40 tokens for three periods and 24 tokens; near-repetition is not counted. Loss is in nats "
        f"per token of the generator's answer.\n\n{failed}"
    )


def set_row(name: str, score: SetScore) -> str:
    right = "" if score.right is None else f"{score.right:.1%}"
    return (
        f"| {name} | {score.prompts} | {right} | {score.verbatim:.1%} | {score.median_answer_tokens:.0f} | "
        f"{score.looping:.1%} | {score.ended:.1%} | {score.loss:.3f} |"
    )


def listed(failed: dict[str, str]) -> str:
    return ", ".join(f"`{family}` {share}" for family, share in failed.items()) or "none"


def examples_section(scores: Scores) -> str:
    """The first prompt of each set, and questions that no generator asks."""
    shown = "\n\n".join(
        f"### {name}\n\n{quoted(score.example[0])}\n\n{score.example[1]}" for name, score in scores.sets.items()
    )
    unseen = "\n".join(f"- **{ask}** {' '.join(said.split())}" for ask, said in scores.unseen)
    return f"## Examples, not chosen\n\n{shown}\n\n### questions that no generator asks\n\n{unseen}\n"


def quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())
