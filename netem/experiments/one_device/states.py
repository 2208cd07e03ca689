"""`states`: how the accept length falls where draft state has fewer bits, comes late, has gaps or arrives slowly.

Five studies on the same prompts: rate (bytes of a token's whole state as it travels, in groups of few bits or through a
learnt codec), bits (of keys, values and other state separately, with and without static scales), lag (the newest
positions have no state), gaps (runs of the prompt have none), and the order in which a long prompt's state crosses a
slow link.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from common.draft_models.state_codec import StateCodec, codec_of
from common.models.source import CONFIG, read_json
from common.protocol.draft_state import BITS, FUSED, HIDDEN, KEY_VALUES, LAST, LSA, WIRE_DTYPES, StateKind, raw_bytes
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.bench import PAPER_TREE, Bench, TimedRounds, ask_all, open_bench
from netem.experiments.one_device.channels import (
    GAP,
    KEYS,
    VALUES,
    CoarseChannel,
    GappedChannel,
    LaggingChannel,
    RecordingChannel,
    Scales,
    SlowChannel,
    calibrated,
)
from netem.experiments.one_device.compared_drafts import ComparedDraft, find_drafts, find_model_paths, need
from netem.experiments.one_device.costs import PACE, level_seconds
from netem.experiments.one_device.dimensions import LLAMA_8B
from netem.experiments.one_device.intervals import Estimate
from netem.experiments.one_device.long_prompts import long_prompts
from netem.experiments.one_device.prompts import choose, in_words
from netem.experiments.one_device.scores import EXPLAINED, Answers, accepts, bootstrap_for

HEADINGS = ("study", "draft", "what", "setting", "accept length", "against all state at once")
ORDERS = ("newest", "prefix")

_WIRE = "float16"
_STATIC = ", static scales"
GROUPS, CODEC = "groups", "learnt codec"


@dataclass(frozen=True)
class StatesWorkload:
    prompts: int  # of each category
    more_prompts: int  # of each category beside them, for rates, which differ least
    tokens: int
    dtypes: Sequence[str]
    lags: Sequence[int]
    shares: Sequence[float]
    megabits: Sequence[float]
    prompt_tokens: int  # of a long prompt
    calibration: int  # prompts of each category


FULL = StatesWorkload(3, 5, 64, tuple(BITS), (0, 2, 4, 8, 16), (0.0, 0.25, 0.5, 0.75, 1.0), (1, 4, 20), 1000, 2)
QUICK = StatesWorkload(1, 0, 12, ("float16", "int4"), (0, 8), (0.0, 1.0), (4,), 200, 1)


@dataclass(frozen=True)
class StateSetting:
    """One point of a study. what: the name of its curve. x: its coordinate. dtype: of the part that the study alters,
    where it does."""

    study: str
    draft: ComparedDraft
    what: str
    x: float
    label: str
    dtype: str = ""

    @property
    def group(self) -> Hashable:
        """Settings of a study that are held against the same first one: those of a draft, and a learnt codec against
        the first draft of its kind and depth."""
        return (self.draft.kind.name, self.draft.depth) if self.what == CODEC else self.draft

    def __str__(self) -> str:
        return f"{self.study}, {self.draft.name}, {self.label}"


@dataclass(frozen=True)
class StatePoint:
    """ratio: of the accept length to that of the study's first setting in the same group."""

    setting: StateSetting
    accept: Estimate
    ratio: Estimate


async def measure(request: Request, advance: Advance) -> Report:
    """Raises MisuseError without a draft of kind `moa`."""
    workload = QUICK if request.quick else FULL
    paths, found = find_model_paths(request), find_drafts(request, with_weightless=False)
    need(found, "moa", paths.folder)
    drafts = chosen(found)
    begun, measured = workload.calibration, workload.calibration + workload.prompts
    prompts = choose(paths.prompts, measured + workload.more_prompts, request.seed)
    spare = [prompt for held in prompts.values() for prompt in held[:begun]]
    asked = {name: held[begun:measured] for name, held in prompts.items()}
    rated = {name: held[begun:] for name, held in prompts.items()}
    with open_bench(paths, drafts) as bench:
        advance("calibrating", 0.0)
        plain = [each for each in drafts if codec_in(each) is None]
        scales = {each: calibrate(bench, each, [bench.tokens(prompt) for prompt in spare]) for each in plain}
        rates = {setting: partial(ask, bench, workload, {}, setting) for setting in rate_settings(bench, drafts)}
        steps = request.steps
        answers = await ask_all(rates, bench.tokenised(rated), lambda doing, share: advance(doing, 0.3 * share), steps)
        systems = {
            setting: partial(ask, bench, workload, scales[setting.draft], setting)
            for setting in settings(bench, plain, workload)
        }
        short = bench.tokenised(asked)
        answers |= await ask_all(systems, short, lambda doing, share: advance(doing, 0.3 + 0.4 * share), steps)
        long = await long_prompts(
            bench,
            prompts,
            workload.prompts,
            workload.prompt_tokens,
            lambda doing, share: advance(doing, 0.7 + 0.1 * share),
        )
        slow = {setting: partial(ask, bench, workload, {}, setting) for setting in order_settings(plain, workload)}
        answers |= await ask_all(slow, long, lambda doing, share: advance(doing, 0.8 + 0.2 * share), steps)
    sizes, rated_sizes = ({name: len(held) for name, held in each.items()} for each in (asked, rated))
    return make_report(make_points(answers, request.seed), sizes, rated_sizes, workload)


def chosen(found: Sequence[ComparedDraft]) -> list[ComparedDraft]:
    """The draft models that need state; of one with several depths, the smallest and the largest."""
    stateful = [each for each in found if each.kind.state is not None]
    depths: dict[Any, list[int]] = {}
    for each in stateful:
        depths.setdefault(each.directory, []).append(each.depth)
    return [each for each in stateful if each.depth in (min(depths[each.directory]), max(depths[each.directory]))]


def codec_in(draft: ComparedDraft) -> StateCodec | None:
    return None if draft.directory is None else codec_of(read_json(draft.directory / CONFIG))


def calibrate(bench: Bench, draft: ComparedDraft, prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Static scales by part of the draft model's state, from `prompts`, which are not measured."""
    recording = RecordingChannel()
    for tokens in prompts:
        bench.answer(draft, PAPER_TREE, tokens, 16, _WIRE, recording)
    return calibrated(recording.seen)


def rate_settings(bench: Bench, drafts: Sequence[ComparedDraft]) -> list[StateSetting]:
    """Every draft's state as it travels: with a learnt codec in its own dtype, without in all below float16."""
    made = []
    for each in drafts:
        shapes = [exporter.shape for exporter in bench.exporters_of(each)]
        large = [kind.shape for kind in large_kinds(bench, each)]
        codec = codec_in(each)
        for dtype in [dtype for dtype in WIRE_DTYPES if BITS[dtype] <= 8] if codec is None else [codec.dtype]:
            size, large_size = (sum(raw_bytes(dtype, (1, *shape)) for shape in held) for held in (shapes, large))
            label = f"{sum(map(prod, shapes))} numbers in {dtype}, {size} B ({large_size:,} B)"
            made.append(StateSetting("rate", each, CODEC if codec else GROUPS, size, label, dtype))
    return made


def settings(bench: Bench, drafts: Sequence[ComparedDraft], workload: StatesWorkload) -> list[StateSetting]:
    """The settings of the studies on short prompts."""
    made = []
    for each in drafts:
        kinds = [exporter.kind for exporter in bench.exporters_of(each)]
        parts = [part for kind in kinds for part in ((KEYS, VALUES) if kind == KEY_VALUES else (kind,))]
        for part in parts:
            for dtype in workload.dtypes:
                made.append(StateSetting("bits", each, part, BITS[dtype], f"{part} in {dtype}", dtype))
                if BITS[dtype] < 8:
                    label = f"{part} in {dtype}{_STATIC}"
                    made.append(StateSetting("bits", each, part + _STATIC, BITS[dtype], label, dtype))
        made += [
            StateSetting("lag", each, "newest positions lacking", lag, f"newest {lag} lacking") for lag in workload.lags
        ]
        made += [
            StateSetting("gaps", each, "of the prompt lacking", share, f"{share:.0%} of the prompt lacking")
            for share in workload.shares
        ]
    return made


def order_settings(drafts: Sequence[ComparedDraft], workload: StatesWorkload) -> list[StateSetting]:
    made = []
    for each in drafts:
        made.append(StateSetting("order", each, "at once", float("inf"), "all state at once"))
        made += [
            StateSetting("order", each, order, megabits, f"{order} first, {megabits:g} Mbit/s")
            for order in ORDERS
            for megabits in workload.megabits
        ]
    return made


def ask(
    bench: Bench, workload: StatesWorkload, scales: Scales, setting: StateSetting, tokens: Sequence[int]
) -> TimedRounds:
    """An answer in a setting; but for the rate, its state is float16 before the channel alters it."""
    channel: CoarseChannel | LaggingChannel | GappedChannel | SlowChannel | None = None
    match setting.study:
        case "bits":
            part = setting.what.removesuffix(_STATIC)
            channel = CoarseChannel({part: setting.dtype}, scales if setting.what.endswith(_STATIC) else None)
        case "lag":
            channel = LaggingChannel(int(setting.x))
        case "gaps":
            channel = GappedChannel(setting.x, len(tokens), seed=len(tokens))
        case "order" if setting.what in ORDERS:
            kinds = large_kinds(bench, setting.draft)
            channel = SlowChannel(
                setting.what, bytes_per_round(setting.x, setting.draft.depth, bench.layers), kinds, "int8"
            )
    dtype = setting.dtype if setting.study == "rate" else _WIRE
    return bench.answer(setting.draft, PAPER_TREE, tokens, workload.tokens, dtype, channel)


def large_kinds(bench: Bench, draft: ComparedDraft) -> list[StateKind]:
    """The draft model's kinds of state, with the sizes that they have for Llama-3-8B, where a learnt codec keeps the
    same share of the numbers."""
    own_width, layers = next(iter(bench.target.pool.widths)), (draft.depth, 2, LLAMA_8B.key_width)
    widths = {HIDDEN: (LLAMA_8B.hidden,)}
    return [
        StateKind(
            each.kind,
            (each.shape[0] * LLAMA_8B.key_width // own_width,)
            if each.kind in (LSA, FUSED, LAST)
            else widths.get(each.kind, layers),
        )
        for each in bench.exporters_of(draft)
    ]


def bytes_per_round(megabits: float, depth: int, layers: int) -> float:
    """The bytes that a link carries while a tree is drafted and verified, at the stated costs."""
    return megabits * 1e6 / 8 * (PACE.per_pass + PAPER_TREE.depth * level_seconds(depth, layers))


def make_points(answers: Mapping[StateSetting, Answers], seed: int) -> list[StatePoint]:
    firsts: dict[tuple[str, Hashable], Answers] = {}
    points = []
    for setting, given in answers.items():
        firsts.setdefault((setting.study, (setting.draft.kind.name, setting.draft.depth)), given)
        first = firsts.setdefault((setting.study, setting.group), given)
        bootstrap = bootstrap_for(given, seed)
        ratio = bootstrap.ratio(accepts(given), accepts(first))
        points.append(StatePoint(setting, bootstrap.mean(accepts(given)), ratio))
    return points


def make_report(
    points: Sequence[StatePoint], sizes: Mapping[str, int], rated: Mapping[str, int], workload: StatesWorkload
) -> Report:
    """sizes: prompts of each category, rated: those of the study of rates."""
    return Report(
        title="Accept length against what arrives of the draft state",
        headings=HEADINGS,
        rows=[
            [
                point.setting.study,
                point.setting.draft.name,
                point.setting.what,
                point.setting.label,
                str(point.accept),
                str(point.ratio),
            ]
            for point in points
        ],
        remarks=(
            EXPLAINED,
            f"Prompts held out from training: {in_words(sizes)}; greedy, at most {workload.tokens} tokens, a tree of "
            f"breadth {PAPER_TREE.breadth}, depth {PAPER_TREE.depth} and at most {PAPER_TREE.nodes} nodes. State that "
            "no setting touches is in float16.",
            "The last column divides by the first setting of the same study and draft, on the same prompts; that of a "
            "learnt codec by the first setting of the first draft of the same kind and N.",
            "rate: all state of a token in the dtype in which it travels, its bytes before zstd; in brackets those of "
            f"the same share of the numbers for Llama-3.1-8B. Prompts: {in_words(rated)}.",
            f"bits: one part of the state at a time, in groups of 32 numbers that share a scale. {on_scales(points)}",
            f"lag: so many of the newest positions that have state lack it. gaps: stretches of {GAP} prompt positions "
            "never arrive, the first four positions always do.",
            f"order: prompts of about {workload.prompt_tokens} tokens, state as large as Llama-3-8B's over a link of "
            f"that rate, a round lasting as long as at the stated costs. {on_order(points)}",
        ),
        results={
            "prompts": dict(sizes),
            "prompts_of_rates": dict(rated),
            "points": [
                {
                    "study": point.setting.study,
                    "draft": point.setting.draft.name,
                    "what": point.setting.what,
                    "x": None if point.setting.x == float("inf") else point.setting.x,
                    "accept_length": point.accept.as_dict(),
                    "against_all_at_once": point.ratio.as_dict(),
                }
                for point in points
            ],
        },
    )


def on_scales(points: Sequence[StatePoint]) -> str:
    """A sentence on the gain of static scales below eight bits."""
    plain = {(p.setting.draft, p.setting.what, p.setting.x): p for p in points if p.setting.study == "bits"}
    gains = []
    for (draft, what, bits), point in plain.items():
        scaled = plain.get((draft, what + _STATIC, bits))
        if scaled is not None:
            change = scaled.accept.value / point.accept.value - 1
            gains.append(f"{draft.name} {what} {bits:g} bits {change:+.1%}")
    return f"Static scales of every channel change accept length by: {'; '.join(gains)}." if gains else ""


def on_order(points: Sequence[StatePoint]) -> str:
    """A sentence on which order gives longer accept lengths."""
    by_order = {
        order: {(p.setting.draft, p.setting.x): p.accept.value for p in points if p.setting.what == order}
        for order in ORDERS
    }
    newest, prefix = by_order["newest"], by_order["prefix"]
    changes = [f"{each.name} at {x:g} Mbit/s {newest[each, x] / prefix[each, x] - 1:+.1%}" for each, x in newest]
    return f"Newest first against prefix order: {'; '.join(changes)}." if changes else ""
