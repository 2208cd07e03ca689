"""Runs every command of docs/quick-start.md in order, with small models in a hub cache and loopback as the network."""

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from client import cli as client_cli
from server import cli as server_cli
from tests.daemon import ready
from tests.families import make_checkpoint
from tests.hub import put_into_cache
from tests.programs import Program, command
from training import cli as training_cli

PAGE = Path(__file__).parents[2] / "docs" / "quick-start.md"
_BLOCK = re.compile(
    r"^```(?P<language>sh|toml|python)(?: (?P<file>\S+))?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)

TARGET, SMALL_DRAFT = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"

IN_THIS_PROCESS: dict[str, Callable[[], object]] = {
    "outrider": client_cli.main,
    "outriderd": server_cli.main,
    "outrider-train": training_cli.main,
}
"""Imported once, where a process of its own would import torch each time."""

INSTALLED_ALREADY = ("git", "cd", "make", "export", "uv")

TYPED = "hello\n/quit\n"


@dataclass
class Workspace:
    """The environment in which the page is followed: one folder and one home directory for both machines. `replaced`
    maps text of the page to what the test uses instead."""

    folder: Path
    home: Path
    replaced: dict[str, str]
    running: ExitStack

    def local(self, text: str) -> str:
        for page, here in self.replaced.items():
            text = text.replace(page, here)
        return text

    def write(self, file: str, body: str) -> None:
        path = self.folder / file.replace("~", str(self.home))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.local(body))


@pytest.fixture
def workspace(tmp_path, monkeypatch) -> Iterator[Workspace]:
    hub, home = tmp_path / "hub", tmp_path / "home"
    target = make_checkpoint(tmp_path / "target", "llama", layers=4, seed=1)
    put_into_cache(hub, TARGET, target)
    put_into_cache(hub, SMALL_DRAFT, make_checkpoint(tmp_path / "draft", "llama", layers=1, seed=2))
    chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "the quick brown fox jumps " * 4}]
    folder = tmp_path / "outrider"
    for made in (folder, folder / "dist", home):
        made.mkdir()
    for file in ("dist/outrider-0.1.0-py3-none-any.whl", "constraints.txt"):
        (folder / file).touch()
    (folder / "chats.jsonl").write_text(f"{json.dumps({'messages': chat})}\n" * 8)
    monkeypatch.chdir(folder)
    for variable, value in {
        "HF_HOME": hub,
        "HF_HUB_OFFLINE": 1,
        "HOME": home,
        "OUTRIDER_CACHE": tmp_path / "cache",
        "OUTRIDER_CONFIG": home / ".config" / "outrider" / "config.toml",
    }.items():
        monkeypatch.setenv(variable, str(value))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    replaced = {
        "scp gpu.example.com:outrider/": "cp ",
        "gpu.example.com": "localhost",
        "0.0.0.0:7070": "localhost:0",
        '"cuda"': '"cpu"',
        "127.0.0.1:8080": "127.0.0.1:0",
    }
    with ExitStack() as running:
        yield Workspace(folder, home, replaced, running)


def lines(body: str) -> list[str]:
    return [line for line in body.replace("\\\n", " ").splitlines() if line.strip()]


def shorter(words: list[str]) -> list[str]:
    """What makes a command end sooner. The answer in JSON stays as long as the page's settings have it."""
    if words[0] == "outrider-train":
        return ["--steps", "2", "--batch-tokens", "256", "--threads", "1"]
    asks = words[:2] in (["outrider", "run"], ["outrider", "chat"]) and "--json" not in words
    return ["--max-new-tokens", "16"] if asks else []


def typed_here(words: list[str], monkeypatch, capsys) -> str:
    """The output of one of our commands, which must succeed."""
    monkeypatch.setattr(sys, "argv", [*words, *shorter(words)])
    monkeypatch.setattr(sys, "stdin", io.StringIO(TYPED))
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        IN_THIS_PROCESS[words[0]]()
    written = capsys.readouterr()
    assert ended.value.code in (0, None), f"{shlex.join(words)}: {written.out}{written.err}"
    return written.out


@contextmanager
def serving(words: list[str]) -> Iterator[str]:
    """Runs a command that serves; yields its address. The server is no fork: it looks up the hub's cache on import."""
    if words[0] == "outrider":
        process: Program | subprocess.Popen[str] = Program(*words, stderr=subprocess.PIPE)
    else:
        process = subprocess.Popen([command(words[0]), *words[1:]], stderr=subprocess.PIPE, text=True)
    with ready(process) as address:
        yield address


def test_every_command_of_the_page_works(workspace, monkeypatch, capsys):
    written: dict[str, str] = {}
    for block in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["language"] == "toml":
            workspace.write(block["file"], block["body"])
            continue
        if block["language"] == "python":
            (workspace.folder / "app.py").write_text(workspace.local(block["body"]))
            capsys.readouterr()
            runpy.run_path(str(workspace.folder / "app.py"))
            written["app"] = capsys.readouterr().out
            continue
        for line in lines(block["body"]):
            words = shlex.split(workspace.local(line))
            if words[0] in INSTALLED_ALREADY:
                continue
            if words[0] not in IN_THIS_PROCESS:
                subprocess.run(["bash", "-c", workspace.local(line)], check=True)
            elif "serve" in words:
                where = workspace.running.enter_context(serving(words))
                asked_for = "127.0.0.1:8080" if words[0] == "outrider" else "gpu.example.com:7070"
                workspace.replaced.pop(asked_for, None)
                workspace.replaced = {asked_for: where, **workspace.replaced}
            else:
                written[line] = typed_here(words, monkeypatch, capsys)

    assert not any(line.startswith(("fail", "warn")) for text in written.values() for line in text.splitlines())
    assert "draft: llama-moa (moa) fits the target" in written["outriderd --config outriderd.toml doctor"]
    assert (
        f"draft: {SMALL_DRAFT.partition('/')[2]} (independent) fits"
        in written["outriderd --config outriderd.toml doctor"]
    )
    assert "max-new-tokens  300" in written["outrider config"]
    assert "ann.key" in written["outrider config"]
    assert "draft llama-moa in int4 (moa) is not here yet" in written["outrider doctor"]
    (asked,) = (text for line, text in written.items() if line.startswith("outrider run") and "--json" in line)
    result = json.loads(asked)
    assert result["finish_reason"] == "stop" or result["stats"]["tokens"] == 300
    assert written["outrider chat"].strip()
    assert "app" in written


def test_the_laptops_file_is_found_where_the_page_puts_it(workspace):
    workspace.write("~/.config/outrider/config.toml", 'server = "localhost:1"\n')
    environment = {name: value for name, value in os.environ.items() if name != "OUTRIDER_CONFIG"}
    environment["XDG_CONFIG_HOME"] = str(workspace.home / ".config")
    done = subprocess.run([command("outrider"), "config"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1].split() == ["server", "localhost:1", "file"]


def test_the_page_leaves_no_language_out():
    """No test would run a block in another language."""
    opened = re.findall(r"^```(\w*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(opened[::2]) == {"sh", "toml", "python"}
    with contextlib.suppress(StopIteration):
        assert next(iter(opened[1::2])) == ""
