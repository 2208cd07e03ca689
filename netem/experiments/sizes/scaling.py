"""Makes the tables of `docs/scaling.md` from `dimensions` and from the rows of `sizes`. Pure; measures nothing.

No command prints them: `tests/netem/experiments/sizes/test_scaling.py` compares them with the page, and its `refreshed`
writes them into it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from netem.experiments.one_device.dimensions import (
    TARGETS,
    DraftDimensions,
    TargetDimensions,
    client_bytes,
    default_config,
    eagle,
    export_share,
    gpu_hours,
    moa,
    published_config,
    state_bytes,
    training_flops,
)
from netem.experiments.sizes.draft_models import DRAFTS
from netem.experiments.sizes.pipeline import Pipeline
from netem.experiments.sizes.report import row_cells
from netem.experiments.sizes.rows import CONTEXT, Place, Row, make_row
from netem.experiments.sizes.targets import TARGETS as SIZED_TARGETS

TOKENS_PER_SECOND = 30
PROMPT_TOKENS = 1000
LINK_BITS_PER_SECOND = 20e6
EPOCH_TOKENS = 200_000_000
EPOCHS = 30
PEAK_FLOPS = 989e12  # of an H100 or H200, dense bfloat16, as its maker states
UTILISATION = 0.4

DEPTHS = (0, 1, 3)
BUNDLE = "moa 0, 1, 3"
SIZES = (
    "target",
    "draft",
    "weights",
    "dtype",
    "client, MB",
    "client computed, MB",
    "bundle, MB",
    "bundle on the link, s",
    "level, ms",
    "server, MB",
    "server computed, MB",
    "pass, ms",
)
PARAMETERS = ("target", "draft", "server, M", "client, M", "trainable, M", "target's layers, M", "client memory, GB")
STATE = (
    "target",
    "draft",
    "numbers",
    "float16, B",
    "int8, B",
    f"int8 at {TOKENS_PER_SECOND} tokens/s, kbit/s",
    f"int8, {PROMPT_TOKENS:,} prompt tokens, MB",
    f"seconds at {LINK_BITS_PER_SECOND / 1e6:g} Mbit/s",
    "server's extra work",
)
TRAINING = ("target", "draft", "GFLOP/token", "one epoch, GPU hours", f"{EPOCHS} epochs, GPU hours")

PIPELINE = (
    "stages",
    "acceptance",
    "no drafts, tokens/s",
    "one pass in flight, tokens/s",
    "deeper nodes in flight, tokens/s",
    "gain",
    "as many sessions as stages, tokens/s",
)


@cache
def drafts(target: TargetDimensions) -> Sequence[DraftDimensions]:
    """Each draft model that a client can run, trained alone; `moa` with the published and the default sizes."""
    alone = [moa(target, default_config(target, (depth,)), depth) for depth in DEPTHS]
    published = replace(moa(target, published_config(target, (0,)), 0), name="moa N=0, published")
    return eagle(target), published, *alone


def bundle(target: TargetDimensions) -> DraftDimensions:
    """`moa` with all depths trained at once, which share one part on the server."""
    return moa(target, default_config(target, DEPTHS), 0, BUNDLE)


def by_present_formulas(row: Row) -> Row:
    """A row of an earlier run with what is computed computed anew."""
    target = next(each.dimensions for each in SIZED_TARGETS if each.dimensions.name == row.target)
    known = _sizes(target)
    place = Place(target, known[row.draft], row.weights, row.dtype)
    fresh = make_row(place, [*known.values()], None, None, row.answer, 1.0)
    return replace(
        row,
        client_rss_mb=row.client_rss_mb if row.measured else fresh.client_rss_mb,
        server_rss_mb=row.server_rss_mb if row.server_measured else fresh.server_rss_mb,
        client_mb_computed=fresh.client_mb_computed,
        bundle_mb_computed=fresh.bundle_mb_computed,
        server_mb_computed=fresh.server_mb_computed,
    )


@cache
def _sizes(target: TargetDimensions) -> Mapping[str, DraftDimensions]:
    """Of every draft, by its name; each is counted on a network without memory, which takes a moment."""
    return {size.name: size for size in (draft.size(target) for draft in DRAFTS)}


def sizes_table(rows: Sequence[Row]) -> str:
    """Some columns of the report of `sizes`."""
    return _table(SIZES, [row_cells(row, SIZES) for row in rows])


def parameters_table() -> str:
    return _table(PARAMETERS, [_parameters(target, draft) for target in TARGETS for draft in drafts(target)])


def state_table() -> str:
    return _table(STATE, [_state(target, draft) for target in TARGETS for draft in drafts(target)])


def training_table() -> str:
    rows = [_training(target, draft) for target in TARGETS for draft in (*drafts(target), bundle(target))]
    return _table(TRAINING, rows)


def pipeline_table() -> str:
    pipelines = [Pipeline(stages, acceptance) for stages in (2, 4) for acceptance in (0.6, 0.8, 0.9)]
    return _table(PIPELINE, [_pipeline(each) for each in pipelines])


def _parameters(target: TargetDimensions, draft: DraftDimensions) -> list[str]:
    return [
        target.name,
        draft.name,
        _millions(draft.server),
        _millions(draft.client),
        _millions(draft.trainable),
        _millions(draft.depth * target.layer_parameters),
        f"{client_bytes(target, draft, CONTEXT) / 1e9:.2f}",
    ]


def _state(target: TargetDimensions, draft: DraftDimensions) -> list[str]:
    size = state_bytes(draft, "int8")
    prompt = size * PROMPT_TOKENS
    return [
        target.name,
        draft.name,
        f"{draft.state_numbers:,}",
        f"{state_bytes(draft, 'float16'):,}",
        f"{size:,}",
        f"{8 * size * TOKENS_PER_SECOND / 1000:,.0f}",
        f"{prompt / 1e6:.1f}",
        f"{8 * prompt / LINK_BITS_PER_SECOND:.1f}",
        f"{export_share(target, draft):.2%}",
    ]


def _training(target: TargetDimensions, draft: DraftDimensions) -> list[str]:
    flops = training_flops(target, draft)
    epoch = gpu_hours(flops * EPOCH_TOKENS, PEAK_FLOPS, UTILISATION)
    return [target.name, draft.name, f"{flops / 1e9:.1f}", f"{epoch:.1f}", f"{EPOCHS * epoch:,.0f}"]


def _pipeline(pipeline: Pipeline) -> list[str]:
    return [
        str(pipeline.stages),
        f"{pipeline.acceptance:g}",
        f"{pipeline.plain:.0f}",
        f"{pipeline.one_in_flight:.0f}",
        f"{pipeline.all_in_flight:.0f}",
        f"{pipeline.all_in_flight / pipeline.one_in_flight:.2f}",
        f"{pipeline.sessions_in_turn:.0f}",
    ]


def _millions(parameters: int) -> str:
    return f"{parameters / 1e6:,.1f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
