"""The model cards: what the demo models are, what they were trained on, and what was measured.

What may live here: the cards' text, made from finished numbers. It may not train, evaluate or read files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from training.demo.batching import ROW_LENGTHS
from training.demo.evaluate import AHEAD, CodeScore, Scores
from training.demo.prompts import UNSEEN_QUESTIONS
from training.demo.public_data import SOURCES
from training.demo.registry import families, held_out_families
from training.demo.training_loop import LoopSettings, Progress


@dataclass(frozen=True)
class Trained:
    """One finished run: its model's size, the settings it ran under and how far it came."""

    parameters: int
    settings: LoopSettings
    progress: Progress


def target_card(trained: Trained, scores: Scores, seed: int, public: Sequence[str]) -> str:
    """The target's README, in Markdown."""
    return "\n\n".join(
        [
            heading("Outrider demo target", trained),
            "A very small language model for trying Outrider out. It writes short Python functions from an English "
            "instruction, and chats a little. It knows almost nothing else: outside the kinds of tasks it was "
            "trained on, expect nonsense.",
            data_section(public),
            recipe_section(trained, seed, "cross-entropy on the answers only"),
            measured_section(scores),
            talk_section(scores),
        ]
    )


def draft_card(trained: Trained, scores: Scores, seed: int, public: Sequence[str]) -> str:
    """The draft's README, in Markdown."""
    rows = "\n".join(
        f"| {name} | {score.answers} | {score.agreement:.1%} | {score.accept_length:.2f} |"
        for name, score in scores.draft.items()
    )
    return "\n\n".join(
        [
            heading("Outrider demo draft", trained),
            "An independent draft for the Outrider demo target, with the same tokenizer. It is not meant to be used "
            "alone.",
            data_section(public),
            recipe_section(
                trained, seed, "KL divergence from the target's distribution (90%) and cross-entropy (10%), on answers"
            ),
            "## Measured\n\nOn the target's own greedy answers, both models as saved here and computed in float32:\n\n"
            f"| prompts | answers | greedy agreement per token | tokens per target pass, {AHEAD} drafted in a row |\n"
            f"|---|---|---|---|\n{rows}\n",
        ]
    )


def heading(title: str, trained: Trained) -> str:
    front = "---\nlicense: apache-2.0\nlanguage: en\nlibrary_name: transformers\n---"
    return f"{front}\n\n# {title}\n\n{trained.parameters:,} parameters, Llama architecture, stored in bfloat16."


def data_section(public: Sequence[str]) -> str:
    every, held_out = families(), held_out_families()
    rows = [
        "| generated coding tasks and small talk | the generators in `training/demo` | Apache-2.0 |",
        *(f"| `{source.file}` | {source.origin} | {source.licence} |" for source in SOURCES if source.file in public),
    ]
    return (
        "## Data\n\n| data | origin | licence |\n|---|---|---|\n"
        + "\n".join(rows)
        + f"\n\nGenerated tasks come from {len(every)} families, drawn fresh for every step; no generated sample is "
        "repeated on purpose. One wording in sixteen, by a hash of the prompt, is never trained on, and neither are "
        f"{len(held_out)} whole families: {', '.join(f'`{name}`' for name in held_out)}."
    )


def recipe_section(trained: Trained, seed: int, loss: str) -> str:
    progress, settings = trained.progress, trained.settings
    return (
        f"## Recipe\n\nSeed {seed}. {progress.step:,} steps, {progress.tokens:,} tokens ({progress.learned_tokens:,} "
        f"of them answers), {progress.seconds / 60:.0f} minutes on CPU at {progress.tokens / progress.seconds:,.0f} "
        f"tokens/s. Loss: {loss}; {progress.loss:.3f} nats per answer token at the end, as a moving average over the "
        f"mixture. AdamW at a peak rate of {settings.peak_rate:g}, {settings.warmup_steps} steps of warm-up, linear "
        f"decay over the last {settings.decay_share:.0%} of the time, weight decay {settings.weight_decay:g}, bfloat16 "
        "autocast over float32 weights. Each row of a batch holds one conversation of at most "
        f"{ROW_LENGTHS[-1]} tokens; batches of about 4,096 tokens group conversations of similar length."
    )


def measured_section(scores: Scores) -> str:
    rows = [
        score_row("held-out instances of known families", scores.instances),
        score_row("held-out families", scores.families),
        f"| small talk and unseen questions | {scores.talk.prompts} | | | {scores.talk.looping:.1%} | "
        f"{scores.talk.ended:.1%} | |",
    ]
    return (
        "## Measured\n\nOn the weights as saved here, loaded and computed in float32, greedy, at most 384 new tokens. "
        "The tests of an instance are input-output pairs computed by running the generator's own answer. A held-out "
        "instance has a wording that training never saw; its program, apart from names, may well have occurred, so "
        "that pass@1 measures filling known patterns, and the held-out families measure recombination. Most of the "
        f"small talk was trained on; only {len(UNSEEN_QUESTIONS)} of those prompts were not.\n\n"
        "| prompts | count | pass@1 | median answer tokens | looping | ended by itself | loss |\n"
        "|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n\nAn answer counts as looping when some stretch "
        "repeats with a period of at most 40 tokens for three periods and 24 tokens; near-repetition, as in "
        "the stories below, is not counted.\n\n"
        f"Failed/asked on held-out instances: {listed(scores.instances.failed_families)}.\n\n"
        f"Failed/asked on held-out families: {listed(scores.families.failed_families)}."
    )


def score_row(name: str, score: CodeScore) -> str:
    return (
        f"| {name} | {score.prompts} | {score.pass_at_1:.1%} | {score.median_answer_tokens:.0f} | "
        f"{score.looping:.1%} | {score.ended:.1%} | {score.loss:.3f} |"
    )


def listed(failed: dict[str, str]) -> str:
    return ", ".join(f"`{family}` {share}" for family, share in failed.items()) or "none"


def talk_section(scores: Scores) -> str:
    prompt, answer = scores.example
    shown = "\n".join(f"- **{ask}** {' '.join(said.split())}" for ask, said in scores.talk.examples)
    return f"## Examples, not chosen\n\n**{prompt}**\n\n{answer}\n\n{shown}\n"
