"""The whole path: real commands, a real server, real checkpoints, compared with transformers' own answers."""

import io
import json
import re
import shutil
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from client.terminal.render import AnswerView
from client.text import chat_prompt, chat_tokens, raw_tokens
from common.rpc.stub import Connection
from tests.client.test_cli import outrider
from tests.daemon import outriderd
from tests.families import make_checkpoint
from tests.programs import Program

PROMPT = "the quick brown fox"
TOKENS = 40
NAME = "target"


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A target, a draft that is the target itself, and a draft with other random weights."""
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "target", "llama", seed=1)
    make_checkpoint(folder / "independent", "llama", seed=1)
    make_checkpoint(folder / "stranger", "llama", seed=2, layers=1)
    (folder / "prompts.jsonl").write_text(json.dumps({"id": "a", "prompt": PROMPT}) + "\n")
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def server(models):
    arguments = ["--target", models / "target", "--draft", models / "independent", "--draft", models / "stranger"]
    with outriderd(*map(str, arguments), "--dtype", "float64") as (_, address):
        yield address


@pytest.fixture
def slow_server(models, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    target = tmp_path / NAME
    shutil.copytree(models / "target", target)
    arguments = ["--target", str(target), "--token-file", str(token), "--pace-pass", "40ms"]
    with outriderd(*arguments) as running:
        yield running


def generated(models: Path, tokens: list[int], count: int) -> list[int]:
    model = AutoModelForCausalLM.from_pretrained(models / "target", dtype=torch.float64)
    return model.generate(torch.tensor([tokens]), max_new_tokens=count, do_sample=False)[0, len(tokens) :].tolist()


@pytest.mark.parametrize("idle", ["eager", "patient"])
@pytest.mark.parametrize("draft", ["independent", "stranger", "lookup"])
def test_the_answer_is_what_transformers_generates(monkeypatch, capsys, models, cache, server, draft, idle):
    arguments = ["--draft", draft, "--idle", idle, "--raw", "--json", "--max-new-tokens", str(TOKENS)]
    code, out, err = outrider(
        monkeypatch, capsys, "run", PROMPT, "--server", server, "--cache-dir", str(cache), *arguments
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    tokenizer = AutoTokenizer.from_pretrained(models / "target")
    assert result["token_ids"] == generated(models, raw_tokens(tokenizer, PROMPT), TOKENS)
    assert result["text"] == tokenizer.decode(result["token_ids"], skip_special_tokens=True)
    assert result["stats"]["tokens"] == len(result["token_ids"])
    assert result["stats"]["draft"] == draft
    assert result["stats"]["rule"] == "greedy"
    assert (result["seed"], result["lossy"]) == (None, False)


def result_of(monkeypatch, capsys, server, cache, *arguments: str) -> dict:
    """The output of `outrider run --json`."""
    asked = ["run", PROMPT, "--server", server, "--cache-dir", str(cache), "--json", "--max-new-tokens", str(TOKENS)]
    code, out, err = outrider(monkeypatch, capsys, *asked, *arguments)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_seed_gives_the_same_answer_whatever_is_drafted(monkeypatch, capsys, cache, server):
    ask = partial(result_of, monkeypatch, capsys, server, cache, "--temperature", "0.8")
    first = ask("--draft", "independent")
    assert first["stats"]["rule"] == "coupled"
    assert 0 < first["seed"] < 1 << 63
    again = ask("--draft", "stranger", "--seed", str(first["seed"]))
    assert (again["token_ids"], again["seed"]) == (first["token_ids"], first["seed"])
    assert ask("--seed", str(first["seed"] ^ 1))["token_ids"] != first["token_ids"]


def test_a_lossy_answer_says_so(monkeypatch, capsys, cache, server):
    ask = partial(result_of, monkeypatch, capsys, server, cache, "--rule", "typical", "--temperature")
    assert ask("0.8")["lossy"] is True
    assert ask("0")["lossy"] is False
    plain = ["run", PROMPT, "--server", server, "--cache-dir", str(cache), "--rule", "typical", "--seed", "5"]
    _, _, err = outrider(monkeypatch, capsys, *plain, "--temperature", "0.8", "--max-new-tokens", "4")
    stats, lossy = err.splitlines()
    assert stats.endswith("rule typical, seed 5")
    assert lossy == "typical: lossy, not the target's own distribution"


def readable_inside(text: str) -> str:
    """The longest run of plain characters that the text does not begin with."""
    return max((run for run in re.findall("[!-~]+", text) if text.find(run) > 0), key=len)


def test_text_ends_before_a_stop_string_and_the_tokens_behind_it(monkeypatch, capsys, models, cache, server):
    whole = result_of(monkeypatch, capsys, server, cache)
    stop = readable_inside(whole["text"])
    stopped = result_of(monkeypatch, capsys, server, cache, "--stop", "never, never", "--stop", stop)
    assert stopped["finish_reason"] == "stop"
    assert stopped["text"] == whole["text"].partition(stop)[0]
    count = len(stopped["token_ids"])
    assert stopped["token_ids"] == whole["token_ids"][:count]
    tokenizer = AutoTokenizer.from_pretrained(models / "target")
    assert stop in tokenizer.decode(stopped["token_ids"])
    assert stop not in tokenizer.decode(stopped["token_ids"][:-1])
    plain = ["run", PROMPT, "--server", server, "--cache-dir", str(cache), "--stop", stop]
    assert outrider(monkeypatch, capsys, *plain)[1] == stopped["text"] + "\n"


def test_a_chat_goes_on_from_what_was_shown(monkeypatch, capsys, slow_server, cache):
    _, address = slow_server
    _, out, _ = chat(monkeypatch, capsys, "hello\n", address, cache)
    stop = readable_inside(out)
    asked: list[list[dict[str, str]]] = []

    def spy(tokenizer, messages):
        asked.append([*messages])
        return chat_prompt(tokenizer, messages)

    monkeypatch.setattr("client.chat.chat_session.chat_prompt", spy)
    _, shown, err = chat(monkeypatch, capsys, "hello\nand again\n", address, cache, "--stop", stop)
    assert err == ""
    first = out.partition(stop)[0]
    assert shown.startswith(first + "\n")
    assert asked[-1][1] == {"role": "assistant", "content": first}


def test_a_chat_marks_what_is_lossy(monkeypatch, capsys, slow_server, cache):
    _, address = slow_server
    _, _, err = chat(monkeypatch, capsys, "hello\n", address, cache, "--rule", "typical", "--temperature", "0.8")
    assert err == "typical: lossy, not the target's own distribution\n"


@pytest.mark.parametrize("command", [["run", "hi"], ["chat"]])
def test_a_rule_that_is_not_offered_is_misuse(monkeypatch, capsys, cache, server, command):
    describe = Connection.describe

    async def with_one_rule(connection, *arguments):
        return replace(await describe(connection, *arguments), rules=("greedy",))

    monkeypatch.setattr(Connection, "describe", with_one_rule)
    arguments = ["--server", server, "--cache-dir", str(cache), "--temperature", "1"]
    code, out, err = outrider(monkeypatch, capsys, *command, *arguments)
    assert (code, out) == (2, "")
    assert err == "outrider: this server does not offer the rule 'coupled'; it offers greedy\n"


@pytest.mark.parametrize("policy", ["lockstep", "cloud"])
def test_every_policy_answers_alike(monkeypatch, capsys, models, cache, server, policy):
    arguments = ["--policy", policy, "--json", "--max-new-tokens", str(TOKENS)]
    code, out, _ = outrider(
        monkeypatch, capsys, "run", PROMPT, "--server", server, "--cache-dir", str(cache), *arguments
    )
    tokens = chat_tokens(AutoTokenizer.from_pretrained(models / "target"), [{"role": "user", "content": PROMPT}])
    assert code == 0
    assert json.loads(out)["token_ids"] == generated(models, tokens, TOKENS)


def test_chat_keeps_one_session_over_its_turns(monkeypatch, capsys, slow_server, cache):
    process, address = slow_server
    code, out, err = chat(monkeypatch, capsys, "hello\n\nand again\n/quit\nnever\n", address, cache)
    assert (code, err) == (0, "")
    assert out
    process.terminate()
    (summary,) = [line for line in process.stderr if line.startswith("summary ")]
    counters = json.loads(summary.removeprefix("summary "))
    assert counters["sessions"] == 1
    assert counters["committed_tokens"] == 24


def test_a_question_that_does_not_fit_is_dropped_and_the_chat_goes_on(monkeypatch, capsys, slow_server, cache):
    _, address = slow_server
    alone = chat(monkeypatch, capsys, "hello\n", address, cache)
    code, out, err = chat(monkeypatch, capsys, "x " * 3000 + "\nhello\n", address, cache)
    assert (code, out) == (1, alone[1])
    assert out
    assert "tokens, but the target holds" in err
    assert err.count("\n") == 1


def chat(monkeypatch, capsys, typed: str, address: str, cache: Path, *settings: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    arguments = ["--server", address, "--token", "secret", "--cache-dir", str(cache), "--max-new-tokens", "12"]
    return outrider(monkeypatch, capsys, "chat", *arguments, *settings)


def test_pull_says_where_the_bundle_is(monkeypatch, capsys, cache, server):
    code, out, _ = outrider(
        monkeypatch, capsys, "pull", "--server", server, "--draft", "stranger", "--cache-dir", str(cache)
    )
    assert code == 0
    assert (Path(out.strip()) / "bundle.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "x " * 3000, "--raw"], 2, "context"),
        (["run", "x", "--idle", "sleepy"], 2, "sleepy"),
        (["run", "x", "--draft", "absent"], 2, "independent, stranger, lookup"),
        (["run", "x", "--device", "abacus"], 2, "abacus"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(monkeypatch, capsys, cache, server, arguments, code, says):
    arguments = [*arguments, "--server", server, "--cache-dir", str(cache)]
    exit_code, _, err = outrider(monkeypatch, capsys, *arguments)
    assert exit_code == code
    assert says in err
    assert "Traceback" not in err


def test_a_server_killed_in_mid_answer_leaves_what_was_committed(slow_server, cache):
    process, address = slow_server
    arguments = ["--server", address, "--token", "secret", "--cache-dir", str(cache), "--max-new-tokens", "500"]
    asking = ("run", PROMPT, *arguments, "--offline-wait", "0.3")
    with Program("outrider", *asking, stdout=PIPE, stderr=PIPE) as running:
        first = running.stdout.read(8)
        process.kill()
        rest, err = running.communicate(timeout=60)
        assert running.returncode == 0
    assert first
    assert rest.endswith("\n")
    assert err.splitlines()[-1].endswith("the server was out of reach")


def test_an_answer_without_its_server_is_in_the_json(monkeypatch, capsys, slow_server, cache):
    process, address = slow_server
    arguments = ["--server", address, "--token", "secret", "--cache-dir", str(cache), "--max-new-tokens", "500"]

    class Killing(AnswerView):
        def __call__(self, committed, provisional):
            if committed:
                process.kill()

    monkeypatch.setattr("client.one_answer.AnswerView", Killing)
    settings = ("--json", "--offline-wait", "0.3")
    code, out, err = outrider(monkeypatch, capsys, "run", PROMPT, *settings, *arguments)
    result = json.loads(out)
    assert code == 0
    assert err.endswith("the server was out of reach\n")
    assert result["finish_reason"] == "offline"
    assert 0 < len(result["token_ids"]) == result["stats"]["tokens"] < 500


def test_ctrl_c_stops_the_answer_and_not_the_chat(slow_server, cache):
    _, address = slow_server
    arguments = ["--server", address, "--token", "secret", "--cache-dir", str(cache), "--max-new-tokens", "500"]
    with Program("outrider", "chat", *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE) as chat:
        for _ in range(2):
            chat.stdin.write("hello\n")
            chat.stdin.flush()
            assert chat.stdout.read(8)
            chat.send_signal(signal.SIGINT)
        _, err = chat.communicate("/quit\n", timeout=60)
        assert (chat.returncode, err) == (0, "")


def test_ctrl_c_on_a_dead_link_ends_the_answer_and_keeps_the_chat(slow_server, cache):
    process, address = slow_server
    arguments = ["--server", address, "--token", "secret", "--cache-dir", str(cache), "--max-new-tokens", "500"]
    talking = ("chat", *arguments, "--offline-wait", "60")
    with Program("outrider", *talking, stdin=PIPE, stdout=PIPE, stderr=PIPE) as chat:
        chat.stdin.write("hello\n")
        chat.stdin.flush()
        assert chat.stdout.read(8)
        process.send_signal(signal.SIGSTOP)
        chat.send_signal(signal.SIGINT)
        _, err = chat.communicate("/quit\n", timeout=30)
        assert chat.returncode == 0
    assert all(line.endswith("the server was out of reach") for line in err.splitlines())


@pytest.mark.parametrize("path", ["tokenizer/tokenizer.json", "model.safetensors"])
def test_a_bundle_that_was_damaged_in_the_cache_is_pulled_again(monkeypatch, capsys, tmp_path, server, path):
    arguments = ["--server", server, "--cache-dir", str(tmp_path)]
    directory = Path(outrider(monkeypatch, capsys, "pull", *arguments)[1].strip())
    (directory / path).write_bytes(b"x" * (directory / path).stat().st_size)
    run = ["run", PROMPT, "--max-new-tokens", "4", *arguments]
    code, _, err = outrider(monkeypatch, capsys, *run)
    assert (code, err) == (
        1,
        f"outrider: {path} in the bundle is damaged; fetch it again with `outrider pull`\n",
    )
    assert outrider(monkeypatch, capsys, "pull", *arguments)[0] == 0
    assert outrider(monkeypatch, capsys, *run)[0] == 0


def test_a_wrong_token_is_misuse(monkeypatch, capsys, slow_server, tmp_path):
    _, address = slow_server
    code, _, err = outrider(
        monkeypatch, capsys, "pull", "--server", address, "--token", "guess", "--cache-dir", str(tmp_path)
    )
    assert code == 2
    assert "bearer token" in err


@pytest.mark.usefixtures("forked_servers")
def test_the_demo_compares_systems_that_answer_alike(monkeypatch, capsys, models):
    asked = ("--models", str(models), "--prompts", "1", "--max-new-tokens", "16", "--cost-factor", "1")
    code, out, err = outrider(monkeypatch, capsys, "demo", "--json", *asked)
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["identical"] is True
    assert set(result["systems"]) == {"cloud", "lockstep", "server-side", "overlapped", "outrider"}
    assert {system["rule"] for system in result["systems"].values()} == {"greedy"}
    assert result["systems"]["cloud"]["tokens"] == result["systems"]["outrider"]["tokens"]
