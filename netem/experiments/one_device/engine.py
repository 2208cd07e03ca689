"""`engine`: milliseconds of a pass over many sessions, contexts and rows, against transformers' cached step, its
continuous batching, and the time that reading weights and K/V once takes; and what of a pass is the server's own work.

It may not know links or drafters: it runs packed passes of a model with random weights, of a made-up shape or, with
--target, of a published one.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    ContinuousBatchingConfig,
    DynamicCache,
    GenerationConfig,
    LlamaConfig,
    PreTrainedConfig,
)

from common.models.graphs_of_model import graphs_of
from common.models.packed import PackedModel
from common.models.placement import parse_device
from common.models.segment import Segment
from common.protocol.errors import MisuseError
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.computing import compute_clock, device_name, half_on_gpu
from netem.experiments.one_device.dimensions import build
from netem.experiments.one_device.engine_report import Measured, Point, PointTimes, make_report
from netem.experiments.one_device.own_work import measure_own_work
from netem.experiments.sizes.targets import chosen_targets


@dataclass(frozen=True)
class Workload:
    """The shapes of the model, the points in the order of the table, and how often each is measured."""

    layers: int
    hidden: int
    heads: int
    points: tuple[Point, ...]
    repetitions: int
    batched_tokens: int
    """Two answers of so many tokens, and of twice as many, tell what one step of continuous batching costs."""


_GROWING_CONTEXT = tuple(Point(1, 2**power, 1) for power in range(9, 16))
_GROWING_SESSIONS = tuple(Point(2**power, 512, 1) for power in range(1, 7))
FULL = Workload(
    12,
    768,
    12,
    (
        *(*_GROWING_CONTEXT, *_GROWING_SESSIONS),
        *(Point(8, 4096, 1), Point(1, 4096, 32), Point(16, 1024, 32), Point(16, 1024, 65)),
    ),
    repetitions=5,
    batched_tokens=24,
)
QUICK = Workload(2, 128, 4, (Point(1, 512, 1), Point(4, 512, 1), Point(2, 256, 8)), repetitions=3, batched_tokens=3)

_PAGE = 256
_BATCHED_CONTEXT = 512
_BATCHED_PROMPTS = 2048
"""Prompt tokens that continuous batching may compute for one point: it has no way to begin with a filled cache."""
_STEPPED_TOKENS = 8192
"""Tokens of transformers' cache, which lies beside ours."""
_BANDWIDTH_BYTES = 256 * 2**20
_VOCABULARY = 16_384
_OWN_WORK_PASSES = 21
_SIGHTS = 3
"""Of a pass before its turns: a graph is replayed without a launched pass beside it from its fourth on."""


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    if len(request.targets) > 1:
        raise MisuseError("`engine` measures one published shape a run: name one --target")
    torch.set_num_threads(1)
    measured: list[PointTimes] = []
    shapes = _published(request) if request.targets else _made_up(workload)
    for number, config in enumerate(shapes):
        engine = _Engine(workload, config, request)
        for index, point in enumerate(workload.points):
            advance(
                f"{point.sessions} sessions at {point.context} tokens",
                (number + index / len(workload.points)) / len(shapes),
            )
            measured.append(engine.measure(point))
        del engine
    numbers = str(half_on_gpu(request.device)).removeprefix("torch.")
    of = "; ".join(dict.fromkeys(map(_in_words, shapes)))
    if numbers != "float32":
        of += ", passes as with --fast"
    # The bounds are those of one core.
    judged = not request.quick and not request.targets and request.device == "cpu"
    return make_report(measured, Measured(of, request.device, device_name(request.device), numbers), judged=judged)


def _made_up(workload: Workload) -> list[PreTrainedConfig]:
    """With as many K/V heads as query heads, and with a third of them."""
    return [
        LlamaConfig(
            hidden_size=workload.hidden,
            num_hidden_layers=workload.layers,
            num_attention_heads=workload.heads,
            num_key_value_heads=kv_heads,
            intermediate_size=workload.hidden * 8 // 3,
            vocab_size=_VOCABULARY,
            max_position_embeddings=2**16,
            eos_token_id=None,
        )
        for kv_heads in (workload.heads, workload.heads // 3 or 1)
    ]


def _published(request: Request) -> list[PreTrainedConfig]:
    return [build(each.dimensions).config for each in chosen_targets(request.targets, request.quick).values()]


def _in_words(config: PreTrainedConfig) -> str:
    return (
        f"{config.num_hidden_layers} layers of {config.hidden_size}, {config.num_attention_heads} heads, vocabulary "
        f"{config.vocab_size:,}"
    )


class _Engine:
    """One model with all ways to run it. Their K/V are random numbers, which cost as much as real ones."""

    def __init__(self, workload: Workload, config: PreTrainedConfig, request: Request):
        torch.manual_seed(request.seed)
        self._workload = workload
        self._layers = config.num_hidden_layers
        self._kv_heads = config.num_key_value_heads
        self._dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._device, self._dtype = parse_device(request.device), half_on_gpu(request.device)
        self._clock = compute_clock(self._device)
        self._plain, ours = (self._new_model(config) for _ in range(2))
        # As a server does, before passes take the model over.
        self._graphs = graphs_of(ours) if self._device.type == "cuda" else None
        # Of an embedding a pass reads a few rows; where it is the head too, all of it.
        unread = 0 if config.tie_word_embeddings else ours.get_input_embeddings().weight.nbytes
        self._weights_bytes = sum(each.nbytes for each in ours.parameters()) - unread
        slots = max(point.sessions * (point.context + point.rows) for point in workload.points)
        self._packed = PackedModel(ours, slots, prepacked=True)  # on a CPU: elsewhere there is nothing to prepack
        self._replayed = None if self._graphs is None else PackedModel(ours, slots, graphs=self._graphs)
        for pool in [each.pool for each in (self._packed, self._replayed) if each is not None]:
            for held in (*pool.keys_KSD, *pool.values_KSV):
                held.normal_()
        self._read = torch.ones(_BANDWIDTH_BYTES // 4, device=self._device)

    def _new_model(self, config: PreTrainedConfig) -> Any:
        make: Any = AutoModelForCausalLM.from_config
        with self._device:
            model = make(deepcopy(config), dtype=self._dtype)
        return model.requires_grad_(False).train(False)

    def measure(self, point: Point) -> PointTimes:
        segments = [_segment(point, session) for session in range(point.sessions)]
        systems: dict[str, Callable[[], object]] = {
            "ours": lambda: self._packed.forward(segments),
            "one by one": lambda: [self._packed.forward([segment]) for segment in segments],
            "read": lambda: self._read.sum(),
        }
        if point.sessions * point.context <= _STEPPED_TOKENS and point.rows == 1:
            systems["transformers"] = self._cached_step(point)
        if (replayed := self._replayed) is not None:
            for _ in range(_SIGHTS):
                replayed.forward(segments)
            systems["replayed"] = lambda: replayed.forward(segments)
        replayed_before = 0 if self._graphs is None else self._graphs.replayed_passes
        times = _interleaved(systems, self._workload.repetitions, self._clock)
        if self._graphs is not None and self._graphs.replayed_passes - replayed_before < self._workload.repetitions:
            del times["replayed"]  # passes without a bucket, or of graphs that were given up, are launched
        own = measure_own_work(point.sessions, point.context, point.rows, _OWN_WORK_PASSES)
        bytes_per_token = 2 * self._layers * self._kv_heads * self._dim * self._dtype.itemsize
        read = self._weights_bytes + point.sessions * point.context * bytes_per_token
        return PointTimes(
            point,
            self._kv_heads,
            ours_ms=times["ours"],
            one_by_one_ms=times["one by one"],
            floor_ms=times["read"] * read / _BANDWIDTH_BYTES,
            transformers_ms=times.get("transformers"),
            batching_ms=self._batching_ms(point),
            planning_ms=own.planning_ms,
            packing_ms=own.packing_ms,
            replayed_ms=times.get("replayed"),
        )

    def _cached_step(self, point: Point) -> Callable[[], object]:
        cache = DynamicCache(config=self._plain.config)
        shape, here = (2, point.sessions, self._kv_heads, point.context, self._dim), self._device
        for layer in range(self._layers):
            cache.update(*torch.randn(shape, device=here, dtype=self._dtype), layer)
        token = torch.full((point.sessions, 1), 5, device=here)
        positions = torch.full((point.sessions, 1), point.context, device=here)

        @torch.inference_mode()
        def step() -> None:
            self._plain(input_ids=token, position_ids=positions, past_key_values=cache, use_cache=True)
            cache.crop(-1)

        return step

    def _batching_ms(self, point: Point) -> float | None:
        """Of one step of `generate_batch`, by the difference of two answers' medians; None where its prompts are too
        long here, and on a GPU, where it takes memory by rules of its own."""
        if self._device.type != "cpu":
            return None
        prompt_tokens = point.sessions * point.context
        if point.rows > 1 or point.context != _BATCHED_CONTEXT or prompt_tokens > _BATCHED_PROMPTS:
            return None
        prompts = [list(range(1 + session, 1 + session + point.context)) for session in range(point.sessions)]

        def run(tokens: int) -> None:
            settings = GenerationConfig(  # type: ignore[no-untyped-call]
                max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
            )
            blocks = ContinuousBatchingConfig(
                num_blocks=point.sessions * (point.context // _PAGE + 2),
                page_size=_PAGE,
                max_batch_tokens=_BATCHED_PROMPTS,
            )
            self._plain.generate_batch(
                prompts, generation_config=settings, continuous_batching_config=blocks, warmup=False
            )

        few = self._workload.batched_tokens
        answers = {"long": lambda: run(2 * few), "short": lambda: run(few)}
        times = _interleaved(answers, self._workload.repetitions, self._clock)
        return (times["long"] - times["short"]) / few


def _segment(point: Point, session: int) -> Segment:
    """A root and a binary tree below it, behind a context in slots of the session's own."""
    first = session * (point.context + point.rows)
    end = first + point.context
    return Segment(
        tokens=[5] * point.rows,
        slots=range(end, end + point.rows),
        parents=[-1, *(node // 2 for node in range(point.rows - 1))],
        past_slots=np.arange(first, end),
        wanted=range(point.rows),
    )


def _interleaved(
    systems: Mapping[str, Callable[[], object]], repetitions: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Median milliseconds of each, in turns, so that a slow moment meets all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for turn in range(repetitions + 1):
        for name, run in systems.items():
            begun = clock()
            run()
            # The first turn takes memory and warms caches up.
            if turn:
                seconds[name].append(clock() - begun)
    return {name: median(each) * 1000 for name, each in seconds.items()}
