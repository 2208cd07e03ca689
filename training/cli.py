"""`outrider-train`: the command line of all training recipes.

What may live here: options, their checks, and errors as one sentence. It may not know how any recipe works; recipes are
imported when their command runs, so that `--help` is quick.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from common.programs.command_line import Version, new_app, run
from common.programs.interruption import interrupted_with
from common.protocol.errors import MisuseError
from training.draft_models.commands import add_draft_commands
from training.interrupted import what_goes_on
from training.number_options import check_numbers

app = new_app(
    "Train the drafts and the demo models of Outrider.",
)


@app.callback()
def recipes(version: Version = False) -> None:
    """Train the drafts and the demo models of Outrider."""


add_draft_commands(app)


@app.command()
def trim(
    draft: Annotated[str, typer.Option(help="Draft model of kind moa or eagle: a directory or a hub id.")],
    target: Annotated[str, typer.Option(help="The model that it drafts for: a directory, a hub id, or demo.")],
    data: Annotated[list[Path], typer.Option(help="JSONL, JSON or .txt to count tokens in; may be repeated.")],
    draft_vocabulary: Annotated[int, typer.Option(min=1, help="Most frequent tokens to propose from.")],
    out: Annotated[Path, typer.Option(help="Folder for the trimmed draft model.")],
) -> None:
    """Let a draft model propose the most frequent tokens only. Levels are quicker, and answers the same."""
    from training.draft_models.trim import trim_draft

    trimmed = trim_draft(draft, target, data, draft_vocabulary, out)
    typer.echo(
        f"{out}: {draft_vocabulary:,} of {trimmed.vocabulary:,} tokens, {trimmed.covered:.2%} of what the text predicts"
    )


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for target/ and prompts.jsonl.")],
    tokens: Annotated[
        float, typer.Option(min=0.001, help="Millions of tokens to train on; a resumed run may change it.")
    ] = 100.0,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the public text, which holds train/; without it, generators only.")
    ] = None,
    warm_start: Annotated[
        Path | None,
        typer.Option(help="Folder of a target to go on from, with its tokenizer; without it, from nothing."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.001, help="End after so much training, if --tokens are not reached before.")
    ] = None,
    shape: Annotated[str, typer.Option(help="shipped, or large: 150 M parameters, for a GPU.")] = "shipped",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    judged: Annotated[int, typer.Option(min=4, help="Held-out prompts of each category that judge it.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of data and weights; a second stage needs another one.")] = 7,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
) -> None:
    """Train the demo target, judge it and write its model card."""
    check_numbers({"tokens": tokens, "minutes": minutes, "seed": seed})
    if data is not None and not data.is_dir():
        raise MisuseError(f"the data folder {data} does not exist: pass the one that holds train/, or leave it out")
    if warm_start is not None and not (warm_start / "model.safetensors").is_file():
        raise MisuseError(f"{warm_start} holds no model.safetensors: pass a folder that `demo` wrote as target/")
    if out.exists() and not out.is_dir():
        raise MisuseError(f"--out {out} is a file: choose a folder")
    # Threads must sleep while they wait: beside other work, spinning ones cost more than half of the speed.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from common.models.placement import parse_device
    from training.demo.architecture import SHAPES
    from training.demo.recipe import DemoSettings, Watcher, WorkPaths, train_demo
    from training.progress import TrainingBar

    parse_device(device)
    if shape not in SHAPES:
        raise MisuseError(f"there is no shape '{shape}': choose from {', '.join(SHAPES)}")
    settings_kept = WorkPaths(out / "work").settings
    with interrupted_with(lambda: what_goes_on(settings_kept.exists(), resume)), TrainingBar() as bar:
        watcher = Watcher(
            bar.stage,
            lambda now, wanted: bar.advance(now.tokens, wanted, now.loss, now.tokens / max(now.seconds, 1e-9)),
        )
        settings = DemoSettings(
            seed=seed,
            tokens=round(tokens * 1e6),
            data=data is not None,
            warm=warm_start is not None,
            judged=judged,
            shape=shape,
            seconds=math.inf if minutes is None else 60 * minutes,
        )
        scores = train_demo(out, settings, data, resume, watcher, warm_start, device)
    known, new = scores.pass_at_1
    typer.echo(f"{out}: pass@1 {known:.1%} on held-out instances and {new:.1%} on held-out families.")


@app.command("evaluate-demo")
def evaluate_demo(
    models: Annotated[Path, typer.Option(help="Folder that holds target/.")],
    count: Annotated[int, typer.Option(min=4, help="Held-out prompts of each category.")] = 200,
) -> None:
    """Judge a saved demo target again and print scores as JSON."""
    if not (models / "target" / "model.safetensors").is_file():
        raise MisuseError(f"{models} lacks target: pass the folder that `demo` wrote")
    from dataclasses import asdict

    from training.demo.evaluate import evaluate
    from training.demo.shipping import load_model

    target, tokenizer = load_model(models / "target")
    scores = evaluate(target, tokenizer, count, lambda stage: typer.echo(stage, err=True))
    typer.echo(json.dumps(asdict(scores), indent=2, ensure_ascii=False))


@app.command("demo-data")
def demo_data(
    out: Annotated[Path, typer.Option(help="File to write, one conversation a line.")],
    count: Annotated[int, typer.Option(min=1, help="Conversations.")] = 12_000,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the public text, which holds train/; without it, generators only.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed; another one than the target was trained with.")] = 101,
) -> None:
    """Write the demo target's text as JSONL, to train drafts on."""
    check_numbers({"seed": seed})
    if out.exists():
        raise MisuseError(f"{out} exists: name a new file, or remove it")
    from training.demo.corpus import write_conversations
    from training.demo.public_data import load_public

    with interrupted_with(lambda: "interrupted; nothing is written, and the same command begins again"):
        write_conversations(out, seed, load_public(data) if data is not None else {}, count)
    typer.echo(f"{out}: {count:,} conversations")


def main() -> NoReturn:
    """Run the command line and exit."""
    run(app, "outrider-train", interrupted="interrupted")


if __name__ == "__main__":
    main()
