"""Plays arenas in episodes: counts what became of frames, times each, watches memory, and writes down what failed.

An episode follows from the seed, its arena's name and its number, so that it can be played again, whole or from the
file that a failure leaves behind.
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

from tests.fuzz.arena import Arena
from tests.fuzz.chance import Shot
from tests.fuzz.client_arena import ClientArena
from tests.fuzz.decoders import Decoders
from tests.fuzz.description_arena import DescriptionArena
from tests.fuzz.file_arena import FileArena
from tests.fuzz.payload_arena import PayloadArena
from tests.fuzz.server_arena import ServerArena

FRAMES_OF_EPISODE = 500
_ROUNDS = 20
_WARM_UP_ROUNDS = 4
_FITTING = ("taken", "decoded", "loaded", "ended")
_REPETITIONS = 3  # of an episode in which a frame took long, for a machine has other things to do too
_WAITING = 20.0  # limits: on a machine however busy, a frame that only computes is back by then


@dataclass(frozen=True, slots=True)
class Kind:
    """An arena, its share of all frames, the longest that one may take in seconds, and whether all of it is a part of
    the warm-up."""

    make: Callable[[Random], Arena]
    share: float
    limit: float = 0.1
    early: bool = False


KINDS = {
    "decoders": Kind(Decoders, 0.3),
    "server": Kind(ServerArena, 0.35),
    "client": Kind(ClientArena, 0.2),
    "payloads": Kind(PayloadArena, 0.07),
    "descriptions": Kind(DescriptionArena, 0.075),
    # Files are loaded once, by other libraries, one of which keeps the last 128 templates.
    "files": Kind(FileArena, 0.005, limit=2.0, early=True),
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Of this process, once garbage is gone."""

    resident: int  # bytes
    objects: int

    @classmethod
    def now(cls) -> "Memory":
        gc.collect()
        return cls(psutil.Process().memory_info().rss, len(gc.get_objects()))


@dataclass(slots=True)
class Report:
    frames: int = 0
    spoilt: int = 0  # of these, those that no peer would have written, and those that were well-formed and refused
    answers: int = 0  # of honest clients beside them
    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in KINDS})
    slowest: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))  # seconds
    repeated: int = 0  # frames that took long, and were tried again
    before: Memory | None = None
    after: Memory | None = None


class FuzzError(AssertionError):
    """What must not happen has happened; the frames that led there are in a file."""


@contextmanager
def _without_logs_of_the_server() -> Iterator[None]:
    """What it logs is told in frames too."""
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
        self._spoilt = Counter[str]()

    def run(self, frames: int, progress: Callable[[int], None] = lambda done: None) -> Report:
        """At least so many spoilt frames. Raises FuzzError at the first of what must not happen."""
        with _without_logs_of_the_server():
            return self._run(frames, progress)

    def _run(self, frames: int, progress: Callable[[int], None]) -> Report:
        for number in range(1, _ROUNDS + 1):
            for name, kind in KINDS.items():
                rounds = _WARM_UP_ROUNDS if kind.early else _ROUNDS
                self._play_until(name, min(1.0, number / rounds) * kind.share * frames)
            progress(self.report.spoilt)
            if number == _WARM_UP_ROUNDS:
                self.report.before = Memory.now()
        self.report.after = Memory.now()
        return self.report

    def _play_until(self, name: str, spoilt: float) -> None:
        while self._spoilt[name] < spoilt:
            self._play(name, self._episodes[name])
            self._episodes[name] += 1

    def _play(self, name: str, episode: int) -> None:
        dice = Random(f"{self._seed}/{name}/{episode}/frames")
        arena, played, report = self._arena(name, episode), list[Shot](), self.report
        for _ in range(FRAMES_OF_EPISODE):
            shot = arena.frame(dice)
            played.append(shot)
            began = time.perf_counter()
            try:
                outcome = arena.take(shot.data)
            except Exception as error:
                raise self._failure(name, episode, played, f"{type(error).__name__}: {error}") from error
            seconds = time.perf_counter() - began
            if seconds > KINDS[name].limit:
                seconds = self._again(name, episode, played)
            report.slowest[name] = max(report.slowest[name], seconds)
            report.outcomes[name][outcome] += 1
            is_spoilt = shot.spoilt or outcome not in _FITTING
            self._spoilt[name] += is_spoilt
            report.frames += 1
            report.spoilt += is_spoilt
        try:
            arena.end()
        except Exception as error:
            raise self._failure(name, episode, played, f"{type(error).__name__}: {error}") from error
        report.answers += getattr(arena, "answers", 0)

    def _again(self, name: str, episode: int, played: Sequence[Shot]) -> float:
        """The least computing time of the last frame when all is played anew. Raises FuzzError where that is too long,
        and where it computes little but does not come back all the same."""
        self.report.repeated += 1
        computed, passed = math.inf, math.inf
        for _ in range(_REPETITIONS):
            arena = self._arena(name, episode)
            for shot in played[:-1]:
                arena.take(shot.data)
            began, busy = time.perf_counter(), time.thread_time()
            arena.take(played[-1].data)
            computed = min(computed, time.thread_time() - busy)
            passed = min(passed, time.perf_counter() - began)
        limit = KINDS[name].limit
        if computed > limit or passed > _WAITING * limit:
            raise self._failure(name, episode, played, f"a frame takes {max(computed, passed) * 1000:.0f} ms")
        return computed

    def _arena(self, name: str, episode: int) -> Arena:
        return KINDS[name].make(Random(f"{self._seed}/{name}/{episode}/arena"))

    def _failure(self, name: str, episode: int, played: Sequence[Shot], what: str) -> FuzzError:
        file = self._folder / f"fuzz-{name}-{episode}.hex"
        lines = [f"{self._seed}/{name}/{episode}", *(shot.data.hex() for shot in played)]
        self._folder.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n")
        frame = f"{name}, episode {episode}, frame {len(played) - 1}"
        return FuzzError(f"{frame}: {what}; play it again with --replay {file}")


def replay(file: Path) -> None:
    """Plays the frames of a failure again, and raises what they do."""
    first, *lines = file.read_text().splitlines()
    seed, name, episode = first.rsplit("/", 2)
    arena = KINDS[name].make(Random(f"{seed}/{name}/{episode}/arena"))
    for line in lines:
        arena.take(bytes.fromhex(line))
    arena.end()
