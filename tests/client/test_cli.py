"""The command line: quick help, and one sentence for every mistake."""

import io
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from client import cli
from client.terminal import piped as piped_module
from client.terminal import progress
from common.bundle import BundleFile, make_manifest
from common.programs.console import PlainConsole


def outrider(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command run in this process."""
    monkeypatch.setattr(sys, "argv", ["outrider", *arguments])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    output = capsys.readouterr()
    return exit_.value.code or 0, output.out, output.err


def test_threads_of_torch_sleep_while_they_wait(monkeypatch, capsys):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    outrider(monkeypatch, capsys, "--version")
    assert os.environ.pop("OMP_WAIT_POLICY") == "PASSIVE"


def test_help_names_sets_of_options_as_they_are_written(monkeypatch, capsys):
    assert "[presets.NAME]" in outrider(monkeypatch, capsys, "run", "--help")[1]


def test_help_imports_nothing_heavy():
    script = "import sys, client.cli; sys.exit(bool({'torch', 'transformers', 'grpc'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "--server"),
        (["run", "hi"], "--server"),
        (["run", "hi", "--server", "nowhere"], "HOST:PORT"),
        (["run", "hi", "--server", "localhost:1", "--max-new-tokens", "0"], "max-new-tokens"),
        (["run", "hi", "--server", "localhost:1", "--policy", "magic"], "stream, lockstep, cloud"),
        (["run", "hi", "--server", "localhost:1", "--token", "a", "--token-file", "b"], "--token-file"),
        (["run", "hi", "--server", "localhost:1", "--token-file", "/nowhere"], "/nowhere"),
        (["run", "hi", "--server", "localhost:1", "--tls-ca", "/nowhere"], "/nowhere"),
        (["chat", "--server", "localhost:1", "--tls-key", "/nowhere"], "belong together"),
        (["run", "hi", "--server", "localhost:1", "--temperature", "-1"], "temperature must be 0 or lie in"),
        (["run", "hi", "--server", "localhost:1", "--temperature", "nan"], "temperature must be 0 or lie in"),
        (["run", "hi", "--server", "localhost:1", "--temperature", "1", "--rule", "greedy"], "samples nothing"),
        (["run", "hi", "--server", "localhost:1", "--rule", "luck"], "greedy, coupled, speculative, typical"),
        (["run", "hi", "--server", "localhost:1", "--pace-draft", "inf"], "finite"),
        (
            ["run", "hi", "--server", "localhost:1", "--offline-wait", "nan"],
            "'--offline-wait': Input should be greater",
        ),
        (["run", "hi", "--server", "localhost:1", "--threads", "100000"], "'--threads': Input should be less than"),
        (["chat", "--server", "localhost:1", "--top-p", "0"], "top-p must lie in"),
        (["chat", "--server", "localhost:1", "--seed", "-1"], "seed must be"),
        (["chat", "--server", "localhost:1", "--stop", "a", "--stop", ""], "a stop string must have"),
        (["chat", "--server", "localhost:1", "--max-new-tokens", str(1 << 32)], "max-new-tokens"),
        (["run", "hi [[private]] there", "--server", "localhost:1"], "not closed; end it with [[/private]]"),
        (["run", "hi [[/private]] there", "--server", "localhost:1"], "not begun; begin it with [[private]]"),
        (["run", "[[private]]a[[private]]b[[/private]]", "--server", "localhost:1"], "inside another"),
        (["run", "hi", "--private-file", "/nowhere", "--server", "localhost:1"], "/nowhere cannot be read"),
        (["run", "hi", "--private-file", "/", "--server", "localhost:1"], "/ cannot be read"),
        (["demo", "--page", "--json"], "prints no JSON"),
        (["demo", "--page", "--listen", "nowhere"], "HOST:PORT"),
        (["demo", "--page", "--listen", "0.0.0.0:0"], "listen on 127.0.0.1"),
        (["demo", "--page", "--listen", "192.0.2.1:80"], "is in use or not this machine's"),
        (["sing"], "sing"),
    ],
)
def test_misuse_is_one_sentence_and_exit_code_2(monkeypatch, capsys, arguments, says):
    code, out, err = outrider(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.startswith("outrider: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "chat"])
def test_help_shows_the_marks_of_what_is_private(monkeypatch, capsys, command):
    code, out, _ = outrider(monkeypatch, capsys, command, "--help")
    assert code == 0
    assert "[[private]] ... [[/private]]" in " ".join(out.split())


@pytest.mark.parametrize("command", [["run", "hi"], ["run", "hi", "--json"], ["chat"], ["pull"]])
def test_an_absent_server_is_one_sentence_and_exit_code_1(monkeypatch, capsys, tmp_path, command):
    arguments = [*command, "--server", "127.0.0.1:9", "--cache-dir", str(tmp_path)]
    code, out, err = outrider(monkeypatch, capsys, *arguments)
    assert (code, out) == (1, "")
    assert err == "outrider: the server at 127.0.0.1:9 cannot be reached; check its address and your link\n"


def test_a_port_of_another_kind_of_server_is_told_as_such(monkeypatch, capsys, tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        where = f"127.0.0.1:{web.server_port}"
        code, out, err = outrider(monkeypatch, capsys, "run", "hi", "--server", where, "--cache-dir", str(tmp_path))
        web.shutdown()
    assert (code, out) == (1, "")
    told = [line for line in err.splitlines() if line.startswith("outrider: ")]
    assert told == [f"outrider: what answers at {where} is not an Outrider server; check the address and the port"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"caf\xe9", "is not valid text; give it in UTF-8"),
        (b"a [[/private]] b", "take the marks out"),
        (b"a [[private]] b [[/private]]", "take the marks out"),
    ],
)
def test_a_private_file_that_cannot_be_one_span_is_misuse(monkeypatch, capsys, tmp_path, content, says):
    (tmp_path / "secret").write_bytes(content)
    arguments = ["run", "hi", "--private-file", str(tmp_path / "secret"), "--server", "localhost:1"]
    code, out, err = outrider(monkeypatch, capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def piped(said: bytes, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The output of `outrider run` for a prompt, with a server that is absent."""
    asked = [sys.executable, "-c", "from client.cli import main; main()", "run", *arguments, "--server", "127.0.0.1:9"]
    done = subprocess.run(asked, input=said, capture_output=True, check=False, timeout=60)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_what_is_piped_in_is_the_prompt_where_there_is_no_other():
    for arguments in ((), ("-",)):
        done = piped(b"a [[/private]] b", *arguments)
        assert (done.returncode, "not begun" in done.stderr) == (2, True)
    assert "there is nothing to ask" in piped(b"").stderr


def test_what_is_piped_in_comes_before_the_prompt(monkeypatch):
    read = cli._read_prompt
    for typed, piped_in, prompt in (
        ("What is it?", "a text\n", "a text\n\nWhat is it?"),
        ("What is it?", " \n", "What is it?"),
        ("", "a text\n", "a text\n"),
        ("-", "a text", "a text"),
    ):
        ours, theirs = os.pipe()
        with os.fdopen(theirs, "w") as written:
            written.write(piped_in)
        with os.fdopen(ours) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert read(typed, None) == prompt


def test_a_file_comes_before_the_prompt_too_and_a_pipe_that_stays_silent_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "notes").write_text("a text\n")
    with (tmp_path / "notes").open() as notes:
        monkeypatch.setattr(sys, "stdin", notes)
        assert cli._read_prompt("What is it?", None) == "a text\n\nWhat is it?"
    monkeypatch.setattr(piped_module, "WAIT_S", 0.01)
    ours, theirs = os.pipe()
    with os.fdopen(ours) as silent, os.fdopen(theirs, "w"):
        monkeypatch.setattr(sys, "stdin", silent)
        assert cli._read_prompt("What is it?", None) == "What is it?"


@pytest.mark.parametrize(
    ("option", "named"), [(("run", "hi", "--stop"), "a stop string"), (("serve", "--offline-note"), "--offline-note")]
)
def test_an_argument_that_is_no_text_is_misuse(monkeypatch, capsys, option, named):
    code, out, err = outrider(monkeypatch, capsys, *option, "\udcff", "--server", "localhost:1")
    assert (code, out, err) == (2, "", f"outrider: {named} is not valid text; give it in UTF-8\n")


@pytest.mark.parametrize("argument", ["-", "\udcff"])
def test_a_prompt_that_is_no_text_is_misuse(monkeypatch, capsys, argument):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="utf-8"))
    code, out, err = outrider(monkeypatch, capsys, "run", argument, "--server", "localhost:1")
    assert (code, out) == (2, "")
    assert err == "outrider: the prompt is not valid text; give it in UTF-8\n"


def test_what_nobody_foresaw_is_one_sentence(monkeypatch, capsys):
    def fail(standalone_mode):
        raise ValueError("odd")

    monkeypatch.setattr(cli, "app", fail)
    assert outrider(monkeypatch, capsys) == (1, "", "outrider: it failed unexpectedly: ValueError: odd\n")


def test_characters_that_the_output_cannot_encode_are_replaced():
    script = "import sys; from client import cli; cli.app = lambda **_: not sys.stdout.write('日本 ok'); cli.main()"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"?? ok", b"")


def test_a_download_shows_names_as_they_are(monkeypatch):
    shown = io.StringIO()
    console = PlainConsole(file=shown, force_terminal=True, width=200)
    monkeypatch.setattr(progress, "PlainConsole", lambda stderr: console)
    with progress.download_bar(make_manifest("[/]small", "lookup", "f", [BundleFile("a", 9, "")])) as advance:
        advance(9)
    assert "[/]small" in shown.getvalue()


def test_doctor_says_what_to_fix(monkeypatch, capsys, tmp_path):
    code, out, _ = outrider(monkeypatch, capsys, "doctor", "--cache-dir", str(tmp_path))
    assert code == 0
    assert "fail" not in out
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, out, _ = outrider(
        monkeypatch,
        capsys,
        "doctor",
        "--cache-dir",
        str(blocked / "in"),
        "--device",
        "abacus",
        "--server",
        "localhost:9",
    )
    assert code == 1
    assert [line.split()[1] for line in out.splitlines() if line.startswith("fail")] == ["device:", "cache:", "port:"]
    assert "--cache-dir" in out


def test_a_demo_without_models_is_one_sentence(monkeypatch, capsys, tmp_path):
    code, out, err = outrider(monkeypatch, capsys, "demo", "--json", "--models", str(tmp_path))
    assert (code, out) == (1, "")
    assert "the folder target and one of" in err


def test_doctor_tells_scripts_of_options_that_cannot_be(monkeypatch, capsys, tmp_path):
    code, out, _ = outrider(monkeypatch, capsys, "doctor", "--json", "--server", "gpu.example:1")
    told = json.loads(out)
    assert (code, told["ok"]) == (1, False)
    assert "in plain text" in told["findings"][-1]["fix"]


def test_doctor_looks_at_a_configuration_that_nothing_else_runs_with(monkeypatch, capsys, tmp_path):
    (tmp_path / "config.toml").write_text("max-new-token = 3\n")
    monkeypatch.setenv("OUTRIDER_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("OUTRIDER_SERVR", "a:1")
    code, _, err = outrider(monkeypatch, capsys, "run", "hi", "--server", "localhost:1")
    assert code == 2
    assert "there is no option 'max-new-token'; did you mean 'max-new-tokens'?" in err
    code, out, _ = outrider(monkeypatch, capsys, "doctor")
    assert code == 1
    assert "fail  configuration: " in out
    assert "did you mean 'max-new-tokens'?" in out
    monkeypatch.setenv("OUTRIDER_CONFIG", os.devnull)
    assert "did you mean OUTRIDER_SERVER?" in outrider(monkeypatch, capsys, "doctor")[1]


def test_what_is_configured_counts_as_if_it_were_typed(monkeypatch, capsys, tmp_path):
    (tmp_path / "config.toml").write_text('server = "localhost:1"\n[run]\npolicy = "magic"\n')
    monkeypatch.setenv("OUTRIDER_CONFIG", str(tmp_path / "config.toml"))
    code, _, err = outrider(monkeypatch, capsys, "run", "hi")
    assert (code, "stream, lockstep, cloud" in err) == (2, True)


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("server = 127\n", "server"),
        ("[run]\nserver = 127\n", "[run] server"),
        ("[presets.near]\nserver = 127\n", "[presets.near] server"),
    ],
)
def test_an_address_that_is_none_is_told_with_where_it_stands(monkeypatch, capsys, tmp_path, content, where):
    (tmp_path / "config.toml").write_text(content)
    monkeypatch.setenv("OUTRIDER_CONFIG", str(tmp_path / "config.toml"))
    code, _, err = outrider(monkeypatch, capsys, "run", "hi")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{tmp_path / 'config.toml'}: {where} does not fit: '127' is not an address; write HOST:PORT" in err


def test_doctor_says_why_no_server_is_named_by_a_configuration_that_cannot_be_read(monkeypatch, capsys, tmp_path):
    (tmp_path / "config.toml").write_text("server = [")
    monkeypatch.setenv("OUTRIDER_CONFIG", str(tmp_path / "config.toml"))
    out = outrider(monkeypatch, capsys, "doctor")[1]
    assert "server: the configuration that may name one cannot be used, so none was checked; --server" in out
    monkeypatch.setenv("OUTRIDER_CONFIG", os.devnull)
    assert "server: none was named, so none was checked; --server" in outrider(monkeypatch, capsys, "doctor")[1]
