"""Which model is asked, and how its draft model is loaded and run on this machine."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.device import MOST_THREADS
from common.programs.command_line import one_of

if TYPE_CHECKING:
    from client.drafting.draft_loader import DraftChoice


def _model(context: typer.Context, given: str) -> str:
    from common.programs.option_sets import alias_applied

    return alias_applied(context, "model", given)


def _models(context: typer.Context, given: list[str] | None) -> list[str]:
    from common.programs.option_sets import aliases_applied

    return aliases_applied(context, "model", given or [])


def _pulled(context: typer.Context, given: str) -> str:
    """Without a name, what the other commands use."""
    from common.programs.option_sets import alias_applied
    from common.programs.settings import value_of

    return alias_applied(context, "model", given or value_of(context, "run", "model"))


def _preset(context: typer.Context, given: str | None) -> str | None:
    from common.programs.option_sets import preset_applied

    return preset_applied(context, given)


def _known_presets(incomplete: str) -> list[str]:
    from common.programs.configuration import user_file
    from common.programs.option_sets import preset_names

    file = Path(os.environ.get("OUTRIDER_CONFIG") or user_file("config.toml"))
    return [name for name in preset_names(file) if name.startswith(incomplete)]


# Eager, because an alias and a preset stand for values of the other options.
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        callback=_preset,
        autocompletion=_known_presets,
        is_eager=True,
        help="Take the options of [presets.NAME] in the configuration file; flags hold before them.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        callback=_model,
        is_eager=True,
        help="Which of the server's models, or an alias of the configuration; the server's first by default.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        callback=_models,
        is_eager=True,
        help="Which of the server's models to load, may be repeated, or an alias of the configuration; all by default.",
    ),
]
PulledModel = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]",
        callback=_pulled,
        is_eager=True,
        help="Which of the server's models, or an alias of the configuration; by default the one that `run` uses.",
    ),
]
Draft = Annotated[
    str | None,
    typer.Option(
        "--draft",
        help="Which of the model's draft models on the server; its first by default. `auto`: the fastest here, of all "
        "of them. Add +lookup, for text that repeats, or another kind without weights.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        autocompletion=one_of("cpu", "cuda", "mps", "auto"),
        help="Where the drafter runs: cpu, cuda, mps (untested), or auto: a GPU if there is one.",
    ),
]
Dtype = Annotated[
    str,
    typer.Option(
        "--dtype",
        autocompletion=one_of("float32", "bfloat16", "float16", "float64"),
        help="The number format of the drafter: float32, bfloat16, ...",
    ),
]
WeightsMode = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="MODE",
        autocompletion=one_of("as-is", "int8", "int4"),
        help="Weights of the draft model: as-is, or int8 or int4 for less memory.",
    ),
]
Threads = Annotated[int, typer.Option("--threads", min=0, max=MOST_THREADS, help="Torch threads; 0 for the default.")]
Layers = Annotated[
    int | None,
    typer.Option("--layers", min=0, metavar="N", help="Last target layers to run locally; chosen by speed if absent."),
]
StateDtype = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="DTYPE",
        autocompletion=one_of("int8", "int4", "int3", "float16"),
        help="How the server sends draft state: int8, int4, int3 or float16.",
        show_default="the draft model's own",
    ),
]
CacheDir = Annotated[Path | None, typer.Option("--cache-dir", envvar="OUTRIDER_CACHE", help="Where bundles are kept.")]
ViaServe = Annotated[
    bool,
    typer.Option("--via-serve/--no-via-serve", help="Use your running `outrider serve`, which has the models loaded."),
]


@dataclass(frozen=True)
class DraftFlags:
    """How the draft model of a command is loaded and run."""

    draft: Draft = None
    device: Device = "cpu"
    dtype: Dtype = "float32"
    weights: WeightsMode = "as-is"
    threads: Threads = 0
    layers: Layers = None
    state: StateDtype = None

    def fields(self, model: str) -> dict[str, Any]:
        """The fields of a `DraftChoice` for the target of this name."""
        return {**asdict(self), "model": model}

    def choice(self, model: str = "") -> "DraftChoice":
        """Raises MisuseError for what cannot draft together, and for a mode or dtype that does not exist."""
        from client.drafting.draft_loader import DraftChoice

        return DraftChoice(**self.fields(model))
