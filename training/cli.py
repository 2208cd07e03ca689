"""`outrider-train`: the command line of all training recipes.

What may live here: options, their checks, and errors as one sentence. It may not know how any recipe works; recipes
are imported when their command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from common.command_line import run
from common.protocol.errors import MisuseError

app = typer.Typer(
    help="Train the drafts and the demo models of Outrider.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def recipes() -> None:
    """Train the drafts and the demo models of Outrider."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for target/, draft/ and prompts.jsonl.")],
    minutes: Annotated[float, typer.Option(help="Active training time of target and draft together.")] = 75.0,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the public text, which holds train/; without it, generators only.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data and weights.")] = 7,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
) -> None:
    """Train the demo target and its draft, judge them and write their model cards."""
    if minutes <= 0:
        raise MisuseError(f"--minutes must be above 0, not {minutes:g}")
    if data is not None and not data.is_dir():
        raise MisuseError(f"the data folder {data} does not exist: pass the one that holds train/, or leave it out")
    if out.exists() and not out.is_dir():
        raise MisuseError(f"--out {out} is a file: choose a folder")
    # Threads must sleep while they wait: beside other work, spinning ones cost more than half of the speed.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from training.demo.recipe import DemoSettings, Watcher, train_demo
    from training.progress import TrainingBar

    with TrainingBar() as bar:
        watcher = Watcher(
            bar.stage,
            lambda now, budget: bar.advance(now.seconds, budget, now.loss, now.tokens / max(now.seconds, 1e-9)),
        )
        settings = DemoSettings(seed=seed, minutes=minutes, data=data is not None)
        scores = train_demo(out, settings, data, resume, watcher)
    typer.echo(
        f"{out}: pass@1 {scores.instances.pass_at_1:.1%} on held-out instances and "
        f"{scores.families.pass_at_1:.1%} on held-out families."
    )


@app.command("evaluate-demo")
def evaluate_demo(
    models: Annotated[Path, typer.Option(help="Folder that holds target/ and draft/.")],
    count: Annotated[int, typer.Option(min=4, help="Coding prompts of each held-out split.")] = 400,
) -> None:
    """Judge saved demo models again and print the scores as JSON."""
    missing = [role for role in ("target", "draft") if not (models / role / "model.safetensors").is_file()]
    if missing:
        raise MisuseError(f"{models} lacks {' and '.join(missing)}: pass the folder that `demo` wrote")
    from dataclasses import asdict

    from training.demo.evaluate import evaluate
    from training.demo.shipping import load_model

    target, tokenizer = load_model(models / "target")
    draft, _ = load_model(models / "draft")
    scores = evaluate(target, tokenizer, draft, count, lambda stage: typer.echo(stage, err=True))
    typer.echo(json.dumps(asdict(scores), indent=2, ensure_ascii=False))


def main() -> NoReturn:
    """Run the command line and exit."""
    run(app, "outrider-train", interrupted="interrupted; the same command with --resume continues")


if __name__ == "__main__":
    main()
