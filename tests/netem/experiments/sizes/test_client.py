"""What a client measures of a server: the time of a pass, by the passes that there were."""

from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from common.protocol.errors import OutriderError
from netem.experiments.sizes import client
from netem.experiments.sizes.client import ClientSetup, pass_seconds

SETUP = ClientSetup("127.0.0.1:1", "moa", 0, "dense", "float32", Path("cache"))


def measured(monkeypatch: pytest.MonkeyPatch, passes: tuple[int, int]) -> float:
    """From two answers of so many passes, the second of which takes 8 s more than the first."""
    times, made = iter((0.0, 2.0, 2.0, 12.0)), iter(passes)

    async def answer(*_: object) -> SimpleNamespace:
        return SimpleNamespace(stats=SimpleNamespace(passes=next(made)))

    @asynccontextmanager
    async def nobody(_: ClientSetup):
        yield None

    monkeypatch.setattr(client, "_client", nobody)
    monkeypatch.setattr(client, "_processor_seconds", lambda _: next(times))
    monkeypatch.setattr(client, "prompt_tokens", lambda *_: [1])
    monkeypatch.setattr(client, "ask_tokens", answer)
    return pass_seconds(SETUP, "Hi", server=1, on_gpu=False)


def test_a_pass_takes_what_the_longer_answer_takes_more_for_each_more_that_it_has(monkeypatch: pytest.MonkeyPatch):
    assert measured(monkeypatch, (2, 18)) == 0.5
    assert measured(monkeypatch, (2, 6)) == 2.0, "the target ended its answer early"


def test_passes_of_a_target_that_ends_at_once_cannot_be_timed(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(OutriderError, match="cannot be timed"):
        measured(monkeypatch, (2, 2))
