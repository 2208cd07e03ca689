"""The commands of `outrider-train` that train drafts, one for each kind with weights: the options that they share, and
those that a kind has beside its recipe.

What may live here: options and their checks that need no model. It may not import torch when loaded, nor know any
kind of draft: `common/draft_kinds.py` names them, and a recipe is imported when its command runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from common.device import MOST_THREADS
from common.draft_kinds import DRAFT_KINDS, TRAINED_KINDS, DraftParts
from common.programs.interruption import interrupted_with
from training.interrupted import what_goes_on
from training.number_options import check_numbers

_RECIPES = "training.draft_models.recipes"

Options = Mapping[str, Any]
"""What a kind's own options become: the keyword arguments of `build` in its recipe, which has the defaults for those
that are None."""


def add_draft_commands(app: typer.Typer) -> None:
    """Adds one command for each kind of draft with weights."""
    for kind in TRAINED_KINDS:
        short = f"Train {kind.title.partition(':')[0]}."
        named = app.command(kind.name, help=f"Train {kind.title}.", short_help=short)
        named(with_shared_options(kind.name, own_options(kind.name)))


def own_options(kind: str) -> Callable[..., Options]:
    """The function `options` of `recipes/KIND_options.py`; where there is no such file, a kind has no options of its
    own."""
    module = f"{_RECIPES}.{kind}_options"
    if importlib.util.find_spec(module) is None:
        return lambda: {}
    found: Callable[..., Options] = importlib.import_module(module).options
    return found


def shared(
    target: Annotated[str, typer.Option(help="The model to draft for: a directory, a hub id, or demo.")],
    data: Annotated[list[Path], typer.Option(help="JSONL, JSON or .txt to learn from; may be repeated.")],
    out: Annotated[Path, typer.Option(help="Folder for the draft; work in progress lies beside it in OUT.work.")],
    steps: Annotated[int | None, typer.Option(help="Length of the run; by default 4 epochs, at least 500.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Length of the run as time, turned into steps at first.")
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a batch, padding included.", show_default="4096, on a GPU 8192")
    ] = None,
    accumulate: Annotated[int, typer.Option(help="Batches of one step.")] = 1,
    max_length: Annotated[
        int | None, typer.Option(help="Longest sample in tokens.", show_default="the context, at most 2048")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.", show_default="the recipe's")] = None,
    regenerate: Annotated[
        bool, typer.Option("--regenerate", help="Learn from answers that the target makes to the data's questions.")
    ] = False,
    held_out: Annotated[
        Path | None, typer.Option(help="File of prompts to measure on.", show_default="2% of the data")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and of the data's order.")] = 7,
    dtype: Annotated[
        str | None, typer.Option(help="float32 or bfloat16.", show_default="float32, on a GPU bfloat16")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.", show_default="a GPU if there is one")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, max=MOST_THREADS, help="CPU threads.", show_default="torch's choice")
    ] = None,
    save_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 200,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run for --out exactly.")] = False,
) -> None:
    """The options of every kind; `with_shared_options` reads them from this signature and calls `train`."""


def with_shared_options(kind: str, own: Callable[..., Options]) -> Callable[..., None]:
    """The command that takes the options of `shared` and those of `own`, as one signature for typer, and trains a draft
    of that kind."""
    common = inspect.signature(shared, eval_str=True).parameters
    special = inspect.signature(own, eval_str=True).parameters

    def command(**values: Any) -> None:
        check_numbers(values)
        options = own(**{name: values.pop(name) for name in special})
        train(kind, options, values)

    required = [parameter for parameter in common.values() if parameter.default is inspect.Parameter.empty]
    optional = [parameter for parameter in common.values() if parameter.default is not inspect.Parameter.empty]
    ordered = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*required, *special.values(), *optional)
    ]
    signature = inspect.Signature(ordered)
    annotated: Any = command
    annotated.__signature__ = signature
    annotated.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    return command


def train(kind: str, options: Options, values: Mapping[str, Any]) -> None:
    """Runs the recipe of that kind and says where the draft is."""
    # Threads must sleep while they wait: beside other work, spinning ones cost more than half of the speed.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from common.draft_models.tail import check_has_tail
    from training.draft_models.checkpoint import WorkFolder
    from training.draft_models.features import FrozenTarget
    from training.draft_models.recipe import Recipe
    from training.draft_models.trainer import TrainSettings, train_draft
    from training.progress import TrainingBar

    given = {**values, "data": tuple(values["data"]), "rate": values["lr"]}
    del given["lr"]
    settings = TrainSettings(**given, command=("outrider-train", *sys.argv[1:]))
    recipe = load_recipe(f"{_RECIPES}.{kind}")
    given_options = {name: value for name, value in options.items() if value is not None}
    folder = WorkFolder(settings.out)

    def going_on() -> str:
        kept = "with the target's answers so far" if settings.regenerate and folder.regenerated.exists() else ""
        return what_goes_on(folder.settings.exists(), settings.resume, kept)

    def build(target: FrozenTarget) -> Recipe:
        if DRAFT_KINDS[kind].parts is DraftParts.ON_TAIL:
            check_has_tail(target.config, target.directory)
        made: Recipe = recipe.build(target, **given_options)
        return made

    with interrupted_with(going_on), TrainingBar() as bar:
        measured = train_draft(settings, build, bar)
    shown = "" if measured is None else f": accept length {measured.accept_length:.2f} on held-out prompts"
    typer.echo(f"{settings.out}{shown}")


def load_recipe(module: str) -> Any:
    """The module with `build(target, **options) -> Recipe`."""
    return importlib.import_module(module)
