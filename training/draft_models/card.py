"""Writes the model card of a trained draft model: its purpose, its data and its measurements.

What may live here: the text of the card. It may not train, measure or read models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.counted import counted
from training.draft_models.checkpoint import RunProgress
from training.draft_models.recipe import Evaluation


@dataclass(frozen=True)
class CardFacts:
    """The content of a card.

    fingerprint: of the target that the draft model fits. new_target: the folder of that one, where it was trained along
    from `target`; empty where it is `target`. data: file name and sha256 of each file. counts: sentences on the data.
    settings: further rows by name. unmeasured: why there is no `measured`. prompts, new_tokens: how the accept length
    was measured; learned_prompts: of these, those that were learned from.
    """

    kind: str
    target: str
    fingerprint: str
    new_target: str
    parameters: int
    data: Sequence[tuple[str, str]]
    counts: Sequence[str]
    seed: int
    progress: RunProgress
    settings: Mapping[str, str]
    measured: Evaluation | None
    unmeasured: str
    prompts: int
    learned_prompts: int
    new_tokens: int
    command: Sequence[str]


def write_card(facts: CardFacts, out: Path) -> None:
    (out / "README.md").write_text(card(facts), encoding="utf-8")


def card(facts: CardFacts) -> str:
    """Markdown with YAML front matter."""
    progress = facts.progress
    front = {
        "library_name": "outrider",
        "tags": ["speculative-decoding", "draft", facts.kind],
        "base_model": facts.target,
        "target_fingerprint": facts.fingerprint,
        "accept_length": round(facts.measured.accept_length, 3) if facts.measured else None,
    }
    rows = {
        "trained parameters": f"{facts.parameters:,}",
        "steps": f"{progress.step:,}",
        "tokens": f"{progress.tokens:,}, of which {progress.learned:,} learned",
        "time": f"{progress.seconds / 60:.1f} minutes until the last step",
        "last loss": f"{progress.loss:.4f}",
        "seed": str(facts.seed),
        **facts.settings,
    }
    return (
        "\n\n".join(
            [
                # JSON is YAML, quoting included.
                "---\n" + "\n".join(f"{name}: {json.dumps(value)}" for name, value in front.items()) + "\n---",
                f"# A `{facts.kind}` draft for {facts.target}",
                fitting(facts),
                "## Training\n\n" + table(("", ""), rows.items()),
                *([f"```\n{shown(facts.command)}\n```"] if facts.command else []),
                "## Data\n\n" + table(("file", "sha256"), facts.data),
                "\n".join(f"- {sentence}." for sentence in facts.counts),
                "## Measured\n\n" + measured(facts),
            ]
        )
        + "\n"
    )


def fitting(facts: CardFacts) -> str:
    if facts.new_target:
        return (
            f"It proposes tokens to the target in `{facts.new_target}` in this folder, known by the fingerprint above, "
            f"which was trained from {facts.target} along with it. It is of no use to another, {facts.target} included."
        )
    return "It proposes tokens to this one target, known by the fingerprint above, and is of no use to another."


def measured(facts: CardFacts) -> str:
    if facts.measured is None:
        return f"Nothing: {facts.unmeasured}."
    lengths = facts.measured.by_depth
    by_depth = {f"n={depth}": length for depth, length in lengths.items()} if len(lengths) > 1 else {}
    rows = {"accept length": facts.measured.accept_length, **by_depth, **facts.measured.details}
    during = ", ".join(f"{value:.2f} after {step:,}" for step, value in facts.progress.accepted)
    return (
        f"On {counted(facts.prompts, 'held-out prompt')}, at most {facts.new_tokens} new tokens each, greedy; "
        "accept length is committed tokens per pass of the target, bonus token included."
        + (f" {facts.learned_prompts} of them were learned from too." if facts.learned_prompts else "")
        + "\n\n"
        + table(("", ""), [(name, f"{value:.3f}") for name, value in rows.items()])
        + (f"\n\nOn fewer and shorter ones during training, by steps: {during}." if during else "")
    )


def table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join([f"| {head[0]} | {head[1]} |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def shown(command: Sequence[str]) -> str:
    """The command, with absolute paths reduced to their last part."""
    return " ".join(Path(part).name if Path(part).is_absolute() else part for part in command)
