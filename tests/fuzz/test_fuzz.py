"""A short run of the fuzzer, and tests of the fuzzer itself: it notices every failure and can repeat it."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from common.protocol.selection import commit_probabilities
from common.protocol.tree_rows import Floats, TreeRows
from tests.fuzz import runner
from tests.fuzz.mutation import FuzzedFrame
from tests.fuzz.runner import FRAMES_OF_EPISODE, FuzzError, Kind, Memory, Runner, replay

_FRAMES = 20_000
_MOST_NEW_OBJECTS = 2000


def test_malformed_frames_do_no_harm(tmp_path: Path) -> None:
    """Honest clients get the answers that they get alone, and nothing is held at the end."""
    report = Runner("a short run", tmp_path).run(_FRAMES)
    assert report.mutated >= _FRAMES
    assert report.answers > 100
    assert not list(tmp_path.iterdir())
    assert all(len(outcomes) > 1 for outcomes in report.outcomes.values())
    assert report.before is not None
    assert report.after is not None
    assert report.after.objects - report.before.objects < _MOST_NEW_OBJECTS


def test_what_weighs_nodes_is_under_fire_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Passes cost time here, and some nodes are so unlikely that their probabilities underflow."""

    def brittle(trees: Sequence[TreeRows], max_acceptances: Sequence[float]) -> list[Floats]:
        weighed = commit_probabilities(trees, max_acceptances)
        if any(0.0 in each for each in weighed):
            raise ZeroDivisionError("a sum of probabilities is 0")
        return weighed

    monkeypatch.setattr(runner, "KINDS", {"server": runner.KINDS["server"]})
    monkeypatch.setattr("server.sessions.pass_schedule.commit_probabilities", brittle)
    with pytest.raises(FuzzError, match="the server failed by itself"):
        Runner("a", tmp_path).run(40 * FRAMES_OF_EPISODE)


class Brittle:
    """A harness in which a certain byte has the effect that it is named after."""

    def __init__(self, rng: Random):
        self._left = 0

    def frame(self, rng: Random) -> FuzzedFrame:
        return FuzzedFrame(rng.randbytes(1), mutated=True)

    def take(self, data: bytes) -> str:
        if data == BREAKS:
            raise KeyError("what nobody expected")
        self._left += data == LEAKS
        if data == LASTS:
            CLOCK.now += 1.0
        return "taken"

    def end(self) -> None:
        if self._left:
            raise AssertionError("something is left")


class Clock:
    """The clock of a machine that computes for this test alone; `others` is time that other processes take."""

    now = 0.0
    others = 0.0

    def perf_counter(self) -> float:
        return self.now + self.others

    def thread_time(self) -> float:
        return self.now


CLOCK = Clock()
BREAKS = LEAKS = LASTS = b""


@pytest.fixture
def brittle(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(runner, "KINDS", {"brittle": Kind(Brittle, 1.0)})
    monkeypatch.setattr(runner, "time", CLOCK)
    return monkeypatch


@pytest.mark.parametrize(
    ("what", "sentence"), [("BREAKS", "KeyError: 'what nobody expected'"), ("LEAKS", "something is left")]
)
def test_what_goes_wrong_can_be_played_again(
    what: str, sentence: str, brittle: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    brittle.setattr(f"{__name__}.{what}", b"\x07")
    with pytest.raises(FuzzError, match=sentence):
        Runner("s", tmp_path).run(10 * FRAMES_OF_EPISODE)
    (file,) = tmp_path.iterdir()
    assert file.read_text().splitlines()[-1] == "07" or what == "LEAKS"
    with pytest.raises((KeyError, AssertionError), match=r"nobody expected|is left"):
        replay(file)
    brittle.setattr(f"{__name__}.{what}", b"")
    replay(file)


def test_a_frame_that_takes_long_each_time_is_a_fault(brittle: pytest.MonkeyPatch, tmp_path: Path) -> None:
    brittle.setattr(f"{__name__}.LASTS", b"\x07")
    with pytest.raises(FuzzError, match="a frame takes 1000 ms"):
        Runner("s", tmp_path).run(10 * FRAMES_OF_EPISODE)


@pytest.mark.parametrize(("seconds", "is_noise"), [(1.0, True), (30.0, False)])
def test_a_frame_that_others_hold_up_is_none(
    seconds: float, is_noise: bool, brittle: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unless it takes longer than any other process could delay it."""
    taken = Brittle.take

    def take(harness: Brittle, data: bytes) -> str:
        CLOCK.others += seconds if data == b"\x07" else 0.0
        return taken(harness, data)

    brittle.setattr(Brittle, "take", take)
    busy = Runner("s", tmp_path)
    if is_noise:
        assert busy.run(10 * FRAMES_OF_EPISODE).repeated > 1
        assert busy.report.slowest == {"brittle": 0.0}
    else:
        with pytest.raises(FuzzError, match="a frame takes 30000 ms"):
            busy.run(10 * FRAMES_OF_EPISODE)


def test_frames_follow_from_the_seed_alone(brittle: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def frames_of(seed: str) -> list[bytes]:
        seen: list[bytes] = []
        brittle.setattr(Brittle, "take", lambda harness, data: seen.append(data) or "taken")
        Runner(seed, tmp_path).run(FRAMES_OF_EPISODE)
        return seen

    assert frames_of("a") == frames_of("a") != frames_of("b")


def test_memory_is_what_is_kept() -> None:
    before = Memory.now()
    kept = [[] for _ in range(5000)]
    assert Memory.now().objects - before.objects >= len(kept)
