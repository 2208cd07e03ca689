"""What a command imports before its first output: nothing that takes seconds and that no answer needs.

Checked by module names instead of times, which a busy machine would stretch.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.forked_commands import TELLING, ForkedCommand, ForkedCommands, forked_commands
from tests.daemon import READY, outriderd
from tests.programs import finished

HEAVY = ("transformers", "torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy")
"""What transformers' models bring. Of torch.distributed torch itself imports a part."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """With the shipped models: drafts that run target layers, and one of another kind each."""
    with outriderd("--target", "demo") as (_, address):
        yield address


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, server: str) -> Path:
    """With the cached tokenizer that the very first start makes with transformers."""
    folder = tmp_path_factory.mktemp("cache")
    finished("outrider", *run(folder, server, "--draft", "lookup"))
    return folder


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkedCommands]:
    with forked_commands() as commands:
        yield commands


def imported(tmp_path: Path, *arguments: str, said: str | None = None) -> set[str]:
    """The modules that are loaded at the end of a command that succeeds."""
    told = tmp_path / "modules"
    done = subprocess.run(
        [sys.executable, "-c", TELLING, str(told), *arguments], input=said, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    return set(told.read_text().split())


def imported_beside_torch(commands: ForkedCommands, tmp_path: Path, *arguments: str, said: str = "") -> set[str]:
    """The same of a command that needs torch."""
    told, typed, written = (tmp_path / name for name in ("modules", "typed", "written"))
    typed.write_text(said)
    process = commands.start(told, *arguments, stdin=typed, stdout=written)
    try:
        with process.stderr:
            explained = process.stderr.read()
        assert process.wait() == 0, explained
    finally:  # pytest's time limit
        process.kill()
        process.wait()
    assert written.read_text().strip()
    return set(told.read_text().split())


def heavy(modules: set[str]) -> list[str]:
    return [name for name in HEAVY if name in modules]


def run(cache: Path, server: str, *arguments: str) -> tuple[str, ...]:
    where = ("--server", server, "--cache-dir", str(cache), "--max-new-tokens", "3")
    return ("run", "the quick fox", *where, *arguments)


@pytest.mark.parametrize("draft", ["moa", "eagle", "medusa", "independent"])
def test_a_run_drafts_without_transformers(tmp_path, cache, server, commands, draft) -> None:
    modules = imported_beside_torch(commands, tmp_path, *run(cache, server, "--draft", draft))
    assert f"common.drafters.{draft}" in modules
    assert heavy(modules) == []


@pytest.mark.parametrize("asked", [("--policy", "cloud"), ("--draft", "lookup")])
def test_what_drafts_without_weights_runs_without_torch(tmp_path, cache, server, asked) -> None:
    modules = imported(tmp_path, *run(cache, server, *asked))
    assert heavy(modules) == []
    assert "torch" not in modules


def test_a_chat_talks_without_transformers(tmp_path, cache, server, commands) -> None:
    where = ("--server", server, "--cache-dir", str(cache), "--max-new-tokens", "3")
    modules = imported_beside_torch(commands, tmp_path, "chat", *where, said="the quick fox\n")
    assert "common.drafters.moa" in modules
    assert heavy(modules) == []


@pytest.fixture
def endpoint(tmp_path: Path, cache: Path, server: str, commands: ForkedCommands) -> Iterator[ForkedCommand]:
    """Ready, and told apart from others by its cache."""
    where = ("--server", server, "--cache-dir", str(cache), "--listen", "127.0.0.1:0")
    process = commands.start(tmp_path / "serving", "serve", *where, stdout=tmp_path / "written")
    with process.stderr as explained:
        try:
            assert any(line.startswith(READY) for line in explained)
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.usefixtures("endpoint")
def test_a_chat_on_a_running_endpoint_loads_nothing(tmp_path, cache, server) -> None:
    where = ("--server", server, "--cache-dir", str(cache), "--max-new-tokens", "3")
    modules = imported(tmp_path, "chat", *where, said="the quick fox\n")
    assert [name for name in ("torch", "grpc", *HEAVY) if name in modules] == []


def test_an_endpoint_is_ready_without_transformers(tmp_path, endpoint) -> None:
    told = tmp_path / "serving"
    endpoint.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 60
    while not told.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    modules = set(told.read_text().split())
    assert "common.drafters.moa" in modules
    assert heavy(modules) == []


def test_temperature_brings_the_processors_and_no_more(tmp_path, cache, server, commands) -> None:
    modules = imported_beside_torch(commands, tmp_path, *run(cache, server, "--temperature", "0.7", "--top-k", "5"))
    assert "transformers" in modules
    assert heavy(modules) == ["transformers"]
