"""Runs harnesses in episodes: counts outcomes of frames, times each, watches memory, and writes failures to files.

An episode depends only on the seed, its harness's name and its number, so it can be repeated, whole or from the file
that a failure leaves behind.
"""

import gc
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from tests.fuzz.client_harness import ClientHarness
from tests.fuzz.decoders import Decoders
from tests.fuzz.description_harness import DescriptionHarness
from tests.fuzz.file_harness import FileHarness
from tests.fuzz.harness import Harness
from tests.fuzz.mutation import FuzzedFrame
from tests.fuzz.payload_harness import PayloadHarness
from tests.fuzz.server_harness import ServerHarness

FRAMES_OF_EPISODE = 500
_ROUNDS = 20
_WARM_UP_ROUNDS = 4
_FITTING = ("taken", "decoded", "loaded", "ended")
_REPETITIONS = 3  # of an episode with a slow frame, because other processes may have delayed it
_WAITING = 20.0  # in units of the limit: even on a busy machine, a frame that only computes returns within this time


@dataclass(frozen=True, slots=True)
class Kind:
    """A harness, its share of all frames, the longest that a frame may take in seconds, and whether all of its frames
    belong to the warm-up."""

    make: Callable[[Random], Harness]
    share: float
    limit: float = 0.1
    early: bool = False


KINDS = {
    "decoders": Kind(Decoders, 0.3),
    "server": Kind(ServerHarness, 0.35),
    "client": Kind(ClientHarness, 0.2),
    "payloads": Kind(PayloadHarness, 0.07),
    "descriptions": Kind(DescriptionHarness, 0.075),
    # Files are loaded once, by other libraries, one of which caches the last 128 templates.
    "files": Kind(FileHarness, 0.005, limit=2.0, early=True),
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of this process, after garbage collection."""

    resident: int  # bytes
    objects: int

    @classmethod
    def now(cls) -> "Memory":
        gc.collect()
        return cls(psutil.Process().memory_info().rss, len(gc.get_objects()))


@dataclass(slots=True)
class Report:
    frames: int = 0
    mutated: int = 0  # of these, mutated ones, and well-formed ones that were refused
    answers: int = 0  # to the honest clients beside them
    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in KINDS})
    slowest: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))  # seconds
    repeated: int = 0  # slow frames that were tried again
    before: Memory | None = None
    after: Memory | None = None


class FuzzError(AssertionError):
    """Something that must not happen has happened; the frames that led to it are in a file."""


@contextmanager
def _without_logs_of_the_server() -> Iterator[None]:
    """The server logs what it also reports in frames; the log would only be noise."""
    log = logging.getLogger("server")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


class Runner:
    def __init__(self, seed: str, folder: Path):
        self.report = Report()
        self._seed = seed
        self._folder = folder
        self._episodes = Counter[str]()
        self._mutated = Counter[str]()

    def run(self, frames: int, progress: Callable[[int], None] = lambda done: None) -> Report:
        """Sends at least this many mutated frames. Raises FuzzError at the first failure."""
        with _without_logs_of_the_server():
            return self._run(frames, progress)

    def _run(self, frames: int, progress: Callable[[int], None]) -> Report:
        for number in range(1, _ROUNDS + 1):
            for name, kind in KINDS.items():
                rounds = _WARM_UP_ROUNDS if kind.early else _ROUNDS
                self._play_until(name, min(1.0, number / rounds) * kind.share * frames)
            progress(self.report.mutated)
            if number == _WARM_UP_ROUNDS:
                self.report.before = Memory.now()
        self.report.after = Memory.now()
        return self.report

    def _play_until(self, name: str, mutated: float) -> None:
        while self._mutated[name] < mutated:
            self._play(name, self._episodes[name])
            self._episodes[name] += 1

    def _play(self, name: str, episode: int) -> None:
        rng = Random(f"{self._seed}/{name}/{episode}/frames")
        harness, played, report = self._harness(name, episode), list[FuzzedFrame](), self.report
        for _ in range(FRAMES_OF_EPISODE):
            fuzzed = harness.frame(rng)
            played.append(fuzzed)
            began = time.perf_counter()
            try:
                outcome = harness.take(fuzzed.data)
            except Exception as error:
                raise self._failure(name, episode, played, f"{type(error).__name__}: {error}") from error
            seconds = time.perf_counter() - began
            if seconds > KINDS[name].limit:
                seconds = self._again(name, episode, played)
            report.slowest[name] = max(report.slowest[name], seconds)
            report.outcomes[name][outcome] += 1
            is_mutated = fuzzed.mutated or outcome not in _FITTING
            self._mutated[name] += is_mutated
            report.frames += 1
            report.mutated += is_mutated
        try:
            harness.end()
        except Exception as error:
            raise self._failure(name, episode, played, f"{type(error).__name__}: {error}") from error
        report.answers += getattr(harness, "answers", 0)

    def _again(self, name: str, episode: int, played: Sequence[FuzzedFrame]) -> float:
        """Repeats the episode and returns the least CPU time of its last frame. Raises FuzzError if that is over the
        limit, or if the elapsed time is far beyond it."""
        self.report.repeated += 1
        computed, passed = math.inf, math.inf
        for _ in range(_REPETITIONS):
            harness = self._harness(name, episode)
            for fuzzed in played[:-1]:
                harness.take(fuzzed.data)
            began, busy = time.perf_counter(), time.thread_time()
            harness.take(played[-1].data)
            computed = min(computed, time.thread_time() - busy)
            passed = min(passed, time.perf_counter() - began)
        limit = KINDS[name].limit
        if computed > limit or passed > _WAITING * limit:
            raise self._failure(name, episode, played, f"a frame takes {max(computed, passed) * 1000:.0f} ms")
        return computed

    def _harness(self, name: str, episode: int) -> Harness:
        return KINDS[name].make(Random(f"{self._seed}/{name}/{episode}/arena"))

    def _failure(self, name: str, episode: int, played: Sequence[FuzzedFrame], what: str) -> FuzzError:
        file = self._folder / f"fuzz-{name}-{episode}.hex"
        lines = [f"{self._seed}/{name}/{episode}", *(fuzzed.data.hex() for fuzzed in played)]
        self._folder.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n")
        frame = f"{name}, episode {episode}, frame {len(played) - 1}"
        return FuzzError(f"{frame}: {what}; play it again with --replay {file}")


def replay(file: Path) -> None:
    """Repeats the frames of a failure, and raises what they cause."""
    first, *lines = file.read_text().splitlines()
    seed, name, episode = first.rsplit("/", 2)
    harness = KINDS[name].make(Random(f"{seed}/{name}/{episode}/arena"))
    for line in lines:
        harness.take(bytes.fromhex(line))
    harness.end()
