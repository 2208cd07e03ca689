"""`engine`: milliseconds of a pass over many sessions, contexts and rows, against transformers' cached step, its
continuous batching, and the time that reading weights and K/V once takes; and what of a pass is the server's own work.

It may not know links or drafters: it runs packed passes of a model with random weights.
"""

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from transformers import ContinuousBatchingConfig, DynamicCache, GenerationConfig, LlamaConfig, LlamaForCausalLM

from common.models.packed import PackedModel
from common.models.segment import Segment
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.engine_report import Point, PointTimes, make_report
from netem.experiments.one_device.own_work import measure_own_work


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
    batched_tokens=6,
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


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    torch.set_num_threads(1)
    measured: list[PointTimes] = []
    for number, kv_heads in enumerate((workload.heads, workload.heads // 3 or 1)):
        engine = _Engine(workload, kv_heads, request.seed)
        for place, point in enumerate(workload.points):
            advance(
                f"{point.sessions} sessions at {point.context} tokens",
                (number + place / len(workload.points)) / 2,
            )
            measured.append(engine.measure(point))
        del engine
    shape = f"{workload.layers} layers of {workload.hidden}, {workload.heads} heads, vocabulary {_VOCABULARY:,}"
    return make_report(measured, shape, judged=not request.quick)


class _Engine:
    """One model with both ways to run it. Its K/V are random numbers, which cost as much as real ones."""

    def __init__(self, workload: Workload, kv_heads: int, seed: int):
        torch.manual_seed(seed)
        self._workload = workload
        self._kv_heads = kv_heads
        self._dim = workload.hidden // workload.heads
        config = LlamaConfig(
            hidden_size=workload.hidden,
            num_hidden_layers=workload.layers,
            num_attention_heads=workload.heads,
            num_key_value_heads=kv_heads,
            intermediate_size=workload.hidden * 8 // 3,
            vocab_size=_VOCABULARY,
            max_position_embeddings=2**16,
            eos_token_id=None,
        )
        self._plain, ours = (LlamaForCausalLM(deepcopy(config)).requires_grad_(False).train(False) for _ in range(2))
        self._weights_bytes = sum(each.nbytes for each in ours.parameters()) - ours.get_input_embeddings().weight.nbytes
        slots = max(point.sessions * (point.context + point.rows) for point in workload.points)
        self._packed = PackedModel(ours, slots, prepacked=True)
        for held in (*self._packed.pool.keys_KSD, *self._packed.pool.values_KSV):
            held.normal_()
        self._read = torch.ones(_BANDWIDTH_BYTES // 4)

    def measure(self, point: Point) -> PointTimes:
        segments = [_segment(point, session) for session in range(point.sessions)]
        systems: dict[str, Callable[[], object]] = {
            "ours": lambda: self._packed.forward(segments),
            "one by one": lambda: [self._packed.forward([segment]) for segment in segments],
            "read": lambda: self._read.sum(),
        }
        if point.sessions * point.context <= _STEPPED_TOKENS and point.rows == 1:
            systems["transformers"] = self._cached_step(point)
        times = _interleaved(systems, self._workload.repetitions)
        own = measure_own_work(point.sessions, point.context, point.rows, _OWN_WORK_PASSES)
        bytes_per_token = 2 * self._workload.layers * self._kv_heads * self._dim * 4
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
        )

    def _cached_step(self, point: Point) -> Callable[[], object]:
        cache = DynamicCache(config=self._plain.config)
        for layer in range(self._workload.layers):
            cache.update(*torch.randn(2, point.sessions, self._kv_heads, point.context, self._dim), layer)
        token = torch.full((point.sessions, 1), 5)
        positions = torch.full((point.sessions, 1), point.context)

        @torch.inference_mode()
        def step() -> None:
            self._plain(input_ids=token, position_ids=positions, past_key_values=cache, use_cache=True)
            cache.crop(-1)

        return step

    def _batching_ms(self, point: Point) -> float | None:
        """Of one step of `generate_batch`, by the difference of two runs; None where its prompts are too long here."""
        prompt_tokens = point.sessions * point.context
        if point.rows > 1 or point.context != _BATCHED_CONTEXT or prompt_tokens > _BATCHED_PROMPTS:
            return None
        prompts = [list(range(1 + session, 1 + session + point.context)) for session in range(point.sessions)]

        def run(tokens: int) -> float:
            settings = GenerationConfig(  # type: ignore[no-untyped-call]
                max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
            )
            blocks = ContinuousBatchingConfig(
                num_blocks=point.sessions * (point.context // _PAGE + 2),
                page_size=_PAGE,
                max_batch_tokens=_BATCHED_PROMPTS,
            )
            begun = time.process_time()
            self._plain.generate_batch(
                prompts, generation_config=settings, continuous_batching_config=blocks, warmup=False
            )
            return time.process_time() - begun

        few = self._workload.batched_tokens
        return (run(2 * few) - run(few)) / few * 1000


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


def _interleaved(systems: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Median milliseconds of processor time of each, in turns, so that a slow moment meets all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for turn in range(repetitions + 1):
        for name, run in systems.items():
            begun = time.process_time()
            run()
            # The first turn takes memory and warms caches up.
            if turn:
                seconds[name].append(time.process_time() - begun)
    return {name: median(each) * 1000 for name, each in seconds.items()}
