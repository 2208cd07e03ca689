"""The command line in this process: misuse is one plain sentence and exit code 2."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from common.bundle import read_bundle_file
from server.cli import main
from tests.drafts import make_moa_draft


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["outriderd", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("serve --target no/such/target --listen FREE", "neither a directory nor"),
        ("serve --target TARGET --listen FREE --draft FOREIGN", "another tokenizer"),
        ("serve --target TARGET --listen FREE --draft ALIEN", "trained for another target"),
        ("bundle --target TARGET --draft ALIEN --out new", "trained for another target"),
        ("serve --target TARGET --listen 0.0.0.0:0", "--insecure"),
        ("serve --target TARGET --tls-cert no.pem --tls-key no.key", "no.key cannot be read"),
        ("serve --target TARGET --token-file no.token", "no.token cannot be read"),
        ("serve --target TARGET --listen FREE --dtype int3", "dtype 'int3' is unknown"),
        ("serve --target TARGET --listen FREE --threads 100000", "'--threads': Input should be less than"),
        ("serve --target TARGET --listen FREE --quantize int3", "weights cannot be quantised to 'int3'; choose from: "),
        ("fleet --target demo --replicas 1 --quantize int3", "weights cannot be quantised to 'int3'; choose from: "),
        ("serve --target TARGET --listen FREE --device abacus", "device 'abacus' is unknown"),
        ("serve --target TARGET --idle lazy", "idle policy 'lazy' is unknown"),
        ("serve --target TARGET --pace-pass soon", "'soon' is no duration"),
        ("serve --target TARGET --listen here", "'here' is not an address"),
        ("serve --target TARGET --listen TAKEN", "is in use"),
        ("serve --target TARGET --pass-tokens 3", "--pass-tokens"),
        ("serve", "--target"),
        ("serve --target TARGET --target TARGET --listen FREE", "two targets are named"),
        ("serve --target one=demo --target two=demo --listen FREE", "'one' and 'two' have the same weights and tokens"),
        ("serve --target demo --target TARGET --listen FREE --draft FOREIGN", "fits none of the targets; for 'demo': "),
        (
            "serve --target demo --draft mao --listen FREE",
            "'mao' is neither a directory nor a draft that is shipped with",
        ),
        ("bundle --target demo --draft mao --out new", "those are moa, "),
        ("serve --target demo --target -b=demo", "a target cannot be named '-b'; use 1 to 64 of the letters"),
        ("serve --target demo --cache-tokens 8 --cache-tokens 9", "--cache-tokens was given 2 times for 1 target;"),
        ("serve --target demo --cache-tokens 1", "too few for a prompt and an answer; give each target at least 64"),
        ("doctor --target demo --cache-tokens 1", "too few for a prompt and an answer; give each target at least 64"),
        ("serve --target TARGET --listen FREE --fleet-store nowhere", "--fleet-store names no store; write redis://"),
        (
            "serve --target TARGET --listen FREE --fleet-list no/list",
            "--fleet-list names no/list, which cannot be read",
        ),
        ("serve --target demo --fleet-list no/list --fleet-store redis://store", "leave out --fleet-list"),
        ("fleet --target demo", "Missing option '--replicas'"),
        ("fleet --target demo --replicas many", "'many' is no number of replicas; write one such as 3"),
        ("fleet --target demo --replicas 4:2", "there cannot be 4:2 replicas"),
        ("fleet --target no/such/target --replicas 2", "neither a directory nor"),
        ("fleet --target demo --replicas 2 --fleet-list here", "a fleet lists its replicas by itself"),
        ("fleet --target demo --replicas 2 --listen 127.0.0.1:65535", "2 replicas need the ports from 65535 on"),
        ("fleet --target demo --replicas 2 --ray here", "'here' is not an address"),
        ("bundle --target TARGET --draft TARGET --out TARGET", "not an empty directory"),
        ("ride", "No such command 'ride'"),
    ],
)
def test_misuse_is_one_sentence(
    arguments: str,
    sentence: str,
    target: Path,
    foreign_draft: Path,
    alien_draft: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        names = {"TARGET": target, "FOREIGN": foreign_draft, "FREE": "127.0.0.1:0", "ALIEN": alien_draft}
        names["TAKEN"] = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run(monkeypatch, *(str(names.get(word, word)) for word in arguments.split())) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert sentence in line
    assert not said.out


def test_bundle_writes_a_bundle(target: Path, draft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    assert run(monkeypatch, "bundle", "--target", str(target), "--draft", str(draft), "--out", str(out)) == 0
    assert read_bundle_file(out).manifest.draft == "small"
    deep, out = make_moa_draft(tmp_path / "deep", target), tmp_path / "deeper"
    assert run(monkeypatch, "bundle", "--target", str(target), "--draft", str(deep), "--out", str(out)) == 0
    assert read_bundle_file(out).manifest.kind == "moa"


MISTAKEN = """
import sys
from server import cli
sys.argv = ["outriderd", *sys.argv[1:]]
try:
    cli.main()
finally:
    heavy = {"torch", "transformers", "grpc"} & set(sys.modules)
    assert not heavy, heavy
"""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("serve --target no/such/target", "neither a directory nor a model's name"),
        ("serve --target HERE", "it has no config.json"),
        ("serve --target demo --draft no/such/draft", "no/such/draft is neither"),
        ("serve --target FOREIGN", "is an encoder with a decoder (model type 't5')"),
        ("bundle --target no/such/target --draft lookup --out new", "neither a directory nor a model's name"),
    ],
)
def test_a_mistaken_name_is_told_before_anything_slow(arguments: str, sentence: str, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "config.json").write_text('{"model_type": "t5", "is_encoder_decoder": true}')
    names = {"HERE": str(tmp_path), "FOREIGN": str(foreign)}
    asked = [names.get(word, word) for word in arguments.split()]
    done = subprocess.run([sys.executable, "-c", MISTAKEN, *asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert sentence in done.stderr
