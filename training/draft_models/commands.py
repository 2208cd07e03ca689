"""The commands `outrider-train moa|eagle|medusa|independent`: shared options once, each kind's own beside its name.

What may live here: options and their checks that need no model. It may not import torch when loaded, nor know how a
kind of draft works; a recipe is imported when its command runs.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from common.protocol.errors import MisuseError

Options = Mapping[str, Any]
"""What a kind's own options become: the keyword arguments of `build` in its recipe, which has the defaults for those
that are None."""


def add_draft_commands(app: typer.Typer) -> None:
    """Adds one command for each kind of draft."""
    for own in (moa, eagle, medusa, independent):
        app.command(own.__name__)(with_shared_options(own))


def moa(
    layers: Annotated[
        str | None,
        typer.Option(help="Numbers of the target's last layers that the client may run.", show_default="0,1,3"),
    ] = None,
    size: Annotated[float | None, typer.Option(help="Trained parameters for each number, in target layers.")] = None,
    mixer: Annotated[
        str | None, typer.Option(help="How all layers become a token's state: mixture, attention or mean.")
    ] = None,
    missing: Annotated[
        float | None, typer.Option(help="Share of samples that lack a span of the prompt's state.")
    ] = None,
    alone: Annotated[
        float | None, typer.Option(help="Share of samples whose state stops for good, as at a cut or private text.")
    ] = None,
    published: Annotated[bool, typer.Option("--published", help="The form and training of the paper.")] = False,
    draft_vocabulary: Annotated[int | None, typer.Option(min=1, help="Most frequent tokens to propose from.")] = None,
) -> Options:
    """Train a Mixture of Attentions draft, with target-layer inference."""
    depths = numbers("--layers", layers) if layers is not None else None
    return {
        "layers": depths,
        "size": size,
        "mixer": mixer,
        "missing": missing,
        "alone": alone,
        "published": published,
        "draft_vocabulary": draft_vocabulary,
    }


def eagle(
    feature_weight: Annotated[float | None, typer.Option(help="Weight of the distance to the features.")] = None,
    soft_weight: Annotated[float | None, typer.Option(help="Weight of the target's distribution.")] = None,
    hard_weight: Annotated[float | None, typer.Option(help="Weight of the tokens themselves.")] = None,
    noise: Annotated[float | None, typer.Option(help="Width of the noise on features.")] = None,
    intermediate: Annotated[int | None, typer.Option(min=1, help="Width of the feed-forward part.")] = None,
    draft_vocabulary: Annotated[int | None, typer.Option(min=1, help="Most frequent tokens to propose from.")] = None,
) -> Options:
    """Train an EAGLE draft: one layer over the target's last hidden state."""
    return {
        "feature_weight": feature_weight,
        "soft_weight": soft_weight,
        "hard_weight": hard_weight,
        "noise": noise,
        "intermediate": intermediate,
        "draft_vocabulary": draft_vocabulary,
    }


def medusa(
    heads: Annotated[int | None, typer.Option(min=1, help="Tokens ahead that are predicted.")] = None,
    blocks: Annotated[int | None, typer.Option(min=1, help="Residual blocks of each.")] = None,
    shared_head: Annotated[bool, typer.Option("--shared-head", help="Take the target's head for all.")] = False,
    train_target: Annotated[
        bool, typer.Option("--train-target", help="Train the target along with the heads and write it as a new one.")
    ] = False,
) -> Options:
    """Train Medusa heads on the target's last hidden state."""
    return {"heads": heads, "blocks": blocks, "shared_head": shared_head, "train_target": train_target}


def independent(
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of the draft.")] = None,
    hidden_size: Annotated[int | None, typer.Option(min=1, help="Its hidden size.")] = None,
    parameters: Annotated[int | None, typer.Option(min=1, help="Parameters to come close to instead.")] = None,
    token_weight: Annotated[float | None, typer.Option(help="Weight of the tokens beside the target's choice.")] = None,
) -> Options:
    """Distil a small model of its own from the target."""
    return {"layers": layers, "hidden": hidden_size, "parameters": parameters, "token_weight": token_weight}


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
    device: Annotated[str | None, typer.Option(help="cpu or cuda.", show_default="a GPU where there is one")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads.", show_default="torch's choice")] = None,
    save_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 200,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run for --out exactly.")] = False,
) -> None:
    """The options of every kind; `with_shared_options` reads them from this signature and calls `train`."""


def with_shared_options(own: Callable[..., Options]) -> Callable[..., None]:
    """The command that takes the options of `shared` and those of `own`, as one signature for typer."""
    common = inspect.signature(shared, eval_str=True).parameters
    special = inspect.signature(own, eval_str=True).parameters

    def command(**values: Any) -> None:
        options = own(**{name: values.pop(name) for name in special})
        train(own.__name__, options, values)

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
    annotated.__doc__ = own.__doc__
    return command


def train(kind: str, options: Options, values: Mapping[str, Any]) -> None:
    """Runs the recipe of that kind and says where the draft is."""
    # Threads must sleep while they wait: beside other work, spinning ones cost more than half of the speed.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from training.draft_models.trainer import TrainSettings, train_draft
    from training.progress import TrainingBar

    given = {**values, "data": tuple(values["data"]), "rate": values["lr"]}
    del given["lr"]
    settings = TrainSettings(**given, command=("outrider-train", *sys.argv[1:]))
    recipe = load_recipe(f"training.draft_models.recipes.{kind}")
    given_options = {name: value for name, value in options.items() if value is not None}
    with TrainingBar() as bar:
        measured = train_draft(settings, lambda target: recipe.build(target, **given_options), bar)
    shown = "" if measured is None else f": accept length {measured.accept_length:.2f} on held-out prompts"
    typer.echo(f"{settings.out}{shown}")


def load_recipe(module: str) -> Any:
    """The module with `build(target, **options) -> Recipe`."""
    return importlib.import_module(module)


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers from 0 that commas separate, in order, each once. Raises `MisuseError`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise MisuseError(f"{option} {text} must be whole numbers with commas between them, such as 0,1,3")
    return tuple(sorted({int(part) for part in parts}))
