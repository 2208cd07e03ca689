"""What a command imports before its first output: nothing that takes seconds and that no answer needs.

Checked by module names instead of times, which a busy machine would stretch.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from tests.daemon import outriderd, ready

HEAVY = ("transformers", "torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy")
"""What transformers' models bring. Of torch.distributed torch itself imports a part."""

CODE = """
import atexit, signal, sys

def tell(*_):
    with open(place + ".part", "w") as file:
        file.write(" ".join(sys.modules))
    __import__("os").rename(place + ".part", place)

place = sys.argv.pop(1)
atexit.register(tell)
signal.signal(signal.SIGUSR1, tell)
sys.argv[0] = "outrider"
from client.cli import main
main()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """With the shipped models: drafts that run target layers, and one of another kind each."""
    with outriderd("--target", "demo") as (_, address):
        yield address


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, server: str) -> Path:
    """With the cached tokenizer that the very first start makes with transformers."""
    folder = tmp_path_factory.mktemp("cache")
    run(folder, folder, server, "--draft", "lookup")
    return folder


def imported(tmp_path: Path, *arguments: str, said: str | None = None) -> set[str]:
    """The modules that are loaded at the end of a command that succeeds."""
    told = tmp_path / "modules"
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(told), *arguments], input=said, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    return set(told.read_text().split())


def heavy(modules: set[str]) -> list[str]:
    return [name for name in HEAVY if name in modules]


def run(tmp_path: Path, cache: Path, server: str, *arguments: str) -> set[str]:
    where = ("--server", server, "--cache-dir", str(cache), "--max-new-tokens", "3")
    return imported(tmp_path, "run", "the quick fox", *where, *arguments)


@pytest.mark.parametrize("draft", ["moa", "eagle", "medusa", "independent"])
def test_a_run_drafts_without_transformers(tmp_path, cache, server, draft) -> None:
    modules = run(tmp_path, cache, server, "--draft", draft)
    assert "torch" in modules
    assert heavy(modules) == []


@pytest.mark.parametrize("asked", [("--policy", "cloud"), ("--draft", "lookup")])
def test_what_drafts_without_weights_runs_without_torch(tmp_path, cache, server, asked) -> None:
    modules = run(tmp_path, cache, server, *asked)
    assert heavy(modules) == []
    assert "torch" not in modules


def test_a_chat_talks_without_transformers(tmp_path, cache, server) -> None:
    where = ("--server", server, "--cache-dir", str(cache), "--max-new-tokens", "3")
    modules = imported(tmp_path, "chat", *where, said="the quick fox\n")
    assert "torch" in modules
    assert heavy(modules) == []


def test_a_chat_on_a_running_endpoint_loads_nothing(tmp_path, cache, server) -> None:
    where = ("--server", server, "--cache-dir", str(cache))
    command = [sys.executable, "-m", "client.cli", "serve", *where, "--listen", "127.0.0.1:0"]
    process = Popen(command, stdout=PIPE, stderr=PIPE, text=True)
    with ready(process):
        modules = imported(tmp_path, "chat", *where, "--max-new-tokens", "3", said="the quick fox\n")
    assert process.stdout is not None
    process.stdout.close()
    assert [name for name in ("torch", "grpc", *HEAVY) if name in modules] == []


def test_an_endpoint_is_ready_without_transformers(tmp_path, cache, server) -> None:
    told = tmp_path / "serving"
    where = ("--server", server, "--cache-dir", str(cache), "--listen", "127.0.0.1:0")
    command = [sys.executable, "-c", CODE, str(told), "serve", *where]
    process = Popen(command, stdout=PIPE, stderr=PIPE, text=True)
    with ready(process):
        process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 60
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        modules = set(told.read_text().split())
    assert process.stdout is not None
    process.stdout.close()
    assert "torch" in modules
    assert heavy(modules) == []


def test_temperature_brings_the_processors_and_no_more(tmp_path, cache, server) -> None:
    modules = run(tmp_path, cache, server, "--temperature", "0.7", "--top-k", "5")
    assert "transformers" in modules
    assert heavy(modules) == ["transformers"]
