"""`outrider-train`: the command line of all training recipes.

What may live here: options, their checks, and errors as one sentence. It may not know how any recipe works; recipes
are imported when their command runs, so that help stays fast.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

MISUSE, FAILURE = 2, 1

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Train the drafts and the demo models of Outrider.",
)


@app.callback()
def recipes() -> None:
    """Each command is one recipe."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for target/, draft/ and prompts.jsonl.")],
    minutes: Annotated[float, typer.Option(help="Active training time of target and draft together.")] = 78.0,
    data: Annotated[Path | None, typer.Option(help="Folder of the public text; without it, generators only.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of data and weights.")] = 7,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
) -> None:
    """Train the demo target and its draft, judge them and write their model cards."""
    if minutes <= 0:
        refuse(f"--minutes must be above 0, not {minutes:g}.")
    if data is not None and not data.is_dir():
        refuse(f"the data folder {data} does not exist: pass the folder that holds train/, or leave --data out.")
    if out.exists() and not out.is_dir():
        refuse(f"--out {out} is a file: choose a folder.")
    # Waiting threads must sleep: on a shared machine, spinning ones cost more than half of the speed.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from training.demo.public_data import DataError
    from training.demo.recipe import DemoSettings, RecipeError, Watcher, train_demo
    from training.progress import TrainingBar

    settings = DemoSettings(seed=seed, minutes=minutes, data=data is not None)
    try:
        with TrainingBar() as bar:
            watcher = Watcher(
                bar.stage,
                lambda now, budget: bar.advance(now.seconds, budget, now.loss, now.tokens / max(now.seconds, 1e-9)),
            )
            scores = train_demo(out, settings, data, resume, watcher)
    except (DataError, RecipeError) as error:
        refuse(f"{error}.")
    except OSError as error:
        fail(f"{error}.")
    typer.echo(
        f"{out}: pass@1 {scores.instances.pass_at_1:.1%} on held-out instances and "
        f"{scores.families.pass_at_1:.1%} on held-out families."
    )


@app.command("evaluate-demo")
def evaluate_demo(
    models: Annotated[Path, typer.Option(help="Folder that holds target/ and draft/.")],
    count: Annotated[int, typer.Option(help="Coding prompts of each held-out split.")] = 400,
) -> None:
    """Judge saved demo models again and print the scores as JSON."""
    missing = [role for role in ("target", "draft") if not (models / role / "model.safetensors").is_file()]
    if missing:
        refuse(f"{models} lacks {' and '.join(missing)}: pass the folder that `outrider-train demo` wrote.")
    if count < 4:
        refuse(f"--count must be at least 4, not {count}.")
    from dataclasses import asdict

    from training.demo.evaluate import evaluate
    from training.demo.shipping import load_model

    target, tokenizer = load_model(models / "target")
    draft, _ = load_model(models / "draft")
    scores = evaluate(target, tokenizer, draft, count, lambda stage: typer.echo(stage, err=True))
    typer.echo(json.dumps(asdict(scores), indent=2, ensure_ascii=False))


def refuse(sentence: str) -> None:
    typer.echo(sentence, err=True)
    raise typer.Exit(MISUSE)


def fail(sentence: str) -> None:
    typer.echo(sentence, err=True)
    raise typer.Exit(FAILURE)


def main() -> None:
    """Run the command line; an interruption is reported in one sentence."""
    try:
        app()
    except KeyboardInterrupt:
        typer.echo("interrupted: run the same command with --resume to continue.", err=True)
        sys.exit(FAILURE)
