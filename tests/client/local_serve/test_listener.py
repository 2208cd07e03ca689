"""client.local_serve.listener: `outrider run` says the same through a running `outrider serve` as by itself."""

import json
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from types import SimpleNamespace

import pytest

from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.local_serve.listener import _check_choice, _DeclinedError
from tests.daemon import outriderd, ready
from tests.families import make_checkpoint
from tests.programs import Program

TOKENS = 30
PROMPT = "the quick brown fox"
MEASURED = ("stats", "link")


class Relay:
    """Stands between whoever asks and a running `outrider serve`, and keeps the first word of each reply."""

    def __init__(self, file: Path, path: Path):
        """`file` is what the running one wrote, which leads to `path` from now on."""
        self.replies: list[str] = []
        info = json.loads(file.read_text(encoding="utf-8"))
        self._there = info["socket"]
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(path))
        path.chmod(0o600)
        self._listening.listen()
        threading.Thread(target=self._work, daemon=True).start()
        file.write_text(json.dumps({**info, "socket": str(path)}), encoding="utf-8")

    def taken(self) -> list[str]:
        """The replies since the last call."""
        replies, self.replies = self.replies, []
        return replies

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _work(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                there.connect(self._there)
                threading.Thread(target=self._carry, args=(here, there), daemon=True).start()
                threading.Thread(target=self._answer, args=(there, here), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _answer(self, there: socket.socket, here: socket.socket) -> None:
        with suppress(OSError), here, there, there.makefile("rb") as lines:
            first = lines.readline()
            if first:
                self.replies.append(json.loads(first)["type"])
                here.sendall(first)
            for line in lines:
                here.sendall(line)


@contextmanager
def relayed(process: Program, cache: Path, path: Path) -> Iterator[Relay]:
    relay = Relay(cache / "serving" / f"{process.pid}.json", path)
    try:
        yield relay
    finally:
        relay.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "target", "llama", seed=1)
    make_checkpoint(folder / "independent", "llama", seed=1)
    (folder / "token").write_text("secret\n")
    (folder / "token").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def server(models) -> Iterator[str]:
    drafts = ("--target", str(models / "target"), "--draft", str(models / "independent"))
    with outriderd(*drafts, "--dtype", "float64", "--token-file", str(models / "token")) as (_, address):
        yield address


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@contextmanager
def serving(server: str, cache: Path, *arguments: str) -> Iterator[Program]:
    where = ("--server", server, "--cache-dir", str(cache), "--listen", "127.0.0.1:0")
    process = Program("outrider", "serve", *where, *arguments, stdout=DEVNULL, stderr=PIPE)
    with ready(process):
        yield process


@pytest.fixture(scope="module")
def relay(server, cache, models) -> Iterator[Relay]:
    """Before one with an API key, which this user needs none of."""
    (models / "key").write_text("key\n")
    (models / "key").chmod(0o600)
    keys = ("--api-key-file", str(models / "key"), "--token-file", str(models / "token"))
    folder = cache / "relay"
    folder.mkdir(0o700)
    with (
        serving(server, cache, *keys, "--parallel", "2") as process,
        relayed(process, cache, folder / "sock") as relay,
    ):
        yield relay


@pytest.fixture
def serve(relay) -> Relay:
    relay.taken()
    return relay


@pytest.fixture
def run(server, cache, models):
    def ask(*arguments: str, prompt: str = PROMPT, token: str = "secret") -> tuple[int, str, str]:
        where = ("--server", server, "--cache-dir", str(cache), "--token", token, "--max-new-tokens", str(TOKENS))
        with Program("outrider", "run", prompt, *where, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as program:
            out, err = program.communicate(timeout=120)
            return program.wait(), out, err

    return ask


def files(cache: Path) -> set[str]:
    return {each.name for each in (cache / "serving").glob("*")}


QUESTIONS = {
    "plain": (),
    "raw": ("--raw",),
    "with a system prompt": ("--system", "you are a fox"),
    "drawn": ("--temperature", "0.8", "--seed", "7", "--top-k", "20"),
    "stopped": ("--stop", "a", "--stop", "q"),
    "without drafts": ("--policy", "cloud"),
    "patient": ("--idle", "patient"),
    "rounds": ("--policy", "lockstep"),
}


@pytest.mark.parametrize("options", QUESTIONS.values(), ids=QUESTIONS)
def test_the_answer_is_the_same(serve, run, options) -> None:
    given = {}
    for way in ("--via-serve", "--no-via-serve"):
        code, out, err = run("--json", way, *options)
        assert (code, err) == (0, "")
        result = json.loads(out)
        assert result["stats"].keys()
        given[way] = {name: value for name, value in result.items() if name not in MEASURED}
        assert serve.taken() == (["Accepted"] if way == "--via-serve" else [])
    assert given["--via-serve"] == given["--no-via-serve"]
    assert given["--via-serve"]["token_ids"]


def test_a_system_prompt_is_part_of_what_is_asked(serve, run) -> None:
    answers = [json.loads(run("--json", *system)[1])["token_ids"] for system in ((), ("--system", "you are a fox"))]
    assert answers[0] != answers[1]
    code, out, err = run("--raw", "--system", "you are a fox")
    assert (code, out, "--raw leaves out the chat template" in err) == (2, "", True)
    serve.taken()


def test_a_person_sees_the_same(serve, run) -> None:
    ways = [run(way) for way in ("--via-serve", "--no-via-serve")]
    for code, out, err in ways:
        assert code == 0
        assert out.endswith("\n")
        assert re.fullmatch(r"30 tokens in .* draft independent, rule greedy\n", err)
    assert serve.taken() == ["Accepted"]
    assert ways[0][1] == ways[1][1]


def test_private_text_stays_here_all_the_same(serve, run) -> None:
    prompt = "the quick [[private]]brown fox[[/private]] jumps"
    ways = [run("--json", way, prompt=prompt) for way in ("--via-serve", "--no-via-serve")]
    results = [json.loads(out) for _, out, _ in ways]
    assert serve.taken() == ["Accepted"]
    assert all(result["private"] for result in results)
    assert results[0]["provisional_text"] == results[1]["provisional_text"]
    assert "the answer is the draft model's own, because the prompt is private" in ways[0][2]


@pytest.mark.parametrize(
    ("options", "why"),
    {
        "numbers": (("--dtype", "bfloat16"), "was started with another --dtype"),
        "draft": (("--draft", "lookup"), "drafts with 'independent', not 'lookup'"),
        "threads": (("--threads", "1"), "was started with another --threads"),
    }.values(),
)
def test_what_was_loaded_otherwise_is_loaded_here_and_told_once(serve, run, options, why) -> None:
    code, out, err = run("--json", *options)
    assert code == 0
    assert serve.taken() == ["Declined"]
    assert json.loads(out)["token_ids"]
    assert err == f"the running `outrider serve` {why}; the draft is loaded here\n"


def test_the_fastest_draft_is_the_one_that_is_loaded(serve, run) -> None:
    code, out, err = run("--json", "--draft", "auto")
    assert (code, err, serve.taken()) == (0, "", ["Accepted"])
    assert json.loads(out)["token_ids"]


@pytest.mark.parametrize(("asked", "other"), [(None, False), ("int4", False), ("int8", True)])
def test_a_dtype_of_state_that_nobody_named_is_that_of_what_is_loaded(asked, other) -> None:
    client = SimpleNamespace(manifest=SimpleNamespace(draft="moa", kind="moa"), description=None)
    loaded = SimpleNamespace(client=client, make_drafter=object(), choice=DraftChoice("moa", state="int4"))
    options = SimpleNamespace(policy=STREAM)
    with pytest.raises(_DeclinedError, match="another --state") if other else nullcontext():
        _check_choice(DraftChoice("moa", state=asked), options, loaded)


@pytest.mark.parametrize(("asked", "other"), [("lookup", False), (None, False), ("lookahead", True)])
def test_another_kind_without_weights_is_another_draft_of_the_same_bundle(asked, other) -> None:
    manifest = SimpleNamespace(draft="lookup", kind="lookup")
    description = SimpleNamespace(bundles=[manifest])
    loaded = SimpleNamespace(
        client=SimpleNamespace(manifest=manifest, description=description), make_drafter=object(), choice=DraftChoice()
    )
    with pytest.raises(_DeclinedError, match="another --draft") if other else nullcontext():
        _check_choice(DraftChoice(asked), SimpleNamespace(policy=STREAM), loaded)


def test_another_token_is_not_ours(serve, run) -> None:
    code, out, err = run("--json", token="wrong")
    assert (code, out) == (2, "")
    assert "the draft is loaded here" not in err, "it is not loaded"
    assert err.startswith("outrider: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("options", [("--rule", "nonsense"), ("--temperature", "-1"), ("--idle", "nonsense")])
def test_misuse_is_told_in_the_same_words(serve, run, options) -> None:
    ways = [run(way, *options) for way in ("--via-serve", "--no-via-serve")]
    assert ways[0] == ways[1]
    assert ways[0][0] == 2


def test_where_as_many_are_answered_as_may_be_the_rest_load_themselves(models, tmp_path) -> None:
    """While two long answers are made, a third question is declined without a word, and has its answer all the same."""
    slow = ("--target", str(models / "target"), "--dtype", "float64", "--pace-pass", "100ms")
    asked = ("run", PROMPT, "--cache-dir", str(tmp_path), "--raw", "--policy", "cloud", "--max-new-tokens")
    with (
        outriderd(*slow) as (_, server),
        serving(server, tmp_path, "--parallel", "2") as process,
        relayed(process, tmp_path, tmp_path / "sock") as relay,
    ):
        where = ("--server", server)
        held = [Program("outrider", *asked, "400", *where, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) for _ in range(2)]
        for program in held:
            assert program.stdout is not None
            assert program.stdout.read(1)
        assert relay.taken() == ["Accepted"] * 2
        with Program("outrider", *asked, "2", *where, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as third:
            out, err = third.communicate(timeout=60)
            assert third.wait() == 0
        assert relay.taken() == ["Declined"]
        assert out.strip()
        assert "the draft is loaded here" not in err
        assert [program.poll() for program in held] == [None, None]
        for program in held:
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=60)
        with Program("outrider", *asked, "2", *where, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as fourth:
            fourth.communicate(timeout=60)
            assert fourth.wait() == 0
        assert relay.taken() == ["Accepted"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_whoever_ends_leaves_nothing_behind(server, cache, models, serve, number) -> None:
    before = files(cache)
    with serving(server, cache, "--token-file", str(models / "token")) as other:
        assert files(cache) - before == {f"{other.pid}.json", f"{other.pid}.sock"}
        other.send_signal(number)
        assert other.wait(20) == 0
    assert files(cache) == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_is_killed_in_mid_answer_is_told_and_what_has_come_stays(models, cache, tmp_path, number) -> None:
    slow = ("--target", str(models / "target"), "--dtype", "float64", "--pace-pass", "100ms")
    with outriderd(*slow) as (_, server), serving(server, tmp_path) as serve:
        where = ("--server", server, "--cache-dir", str(tmp_path), "--raw", "--max-new-tokens", "200")
        with Program("outrider", "run", PROMPT, *where, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as program:
            assert program.stdout is not None
            begun = program.stdout.read(1)
            serve.send_signal(number)
            out, err = program.communicate(timeout=60)
            assert program.wait() == 1
        assert out.endswith("\n")
        assert (begun + out).strip()
        assert err == "outrider: the answer broke off: the running `outrider serve` is gone; ask again\n"
        if number == signal.SIGKILL:
            assert files(tmp_path) == {f"{serve.pid}.json", f"{serve.pid}.sock"}
        # The files that it left do not prevent the next question.
        with Program("outrider", "run", PROMPT, *where[:4], "--max-new-tokens", "2", stdout=PIPE, stderr=PIPE) as again:
            _, err = again.communicate(timeout=60)
            assert again.wait() == 0
            assert err.count("\n") == 1


def test_ctrl_c_ends_the_answer_here_and_there(models, tmp_path) -> None:
    slow = ("--target", str(models / "target"), "--dtype", "float64", "--pace-pass", "100ms")
    with outriderd(*slow) as (_, server), serving(server, tmp_path):
        where = ("--server", server, "--cache-dir", str(tmp_path), "--raw", "--max-new-tokens")
        with Program("outrider", "run", PROMPT, *where, "200", stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as program:
            assert program.stdout is not None
            program.stdout.read(1)
            began = time.monotonic()
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=60)
            assert program.wait() == 130
        assert time.monotonic() - began < 10
        assert out.endswith("\n")
        assert err == "outrider: stopped\n"
        with Program("outrider", "run", PROMPT, *where, "2", stdout=PIPE, stderr=PIPE) as again:
            _, err = again.communicate(timeout=60)
            assert again.wait() == 0


def test_a_server_that_is_away_is_told_as_without(models, tmp_path) -> None:
    drafts = ("--target", str(models / "target"), "--draft", str(models / "independent"), "--dtype", "float64")
    with (
        outriderd(*drafts) as (daemon, server),
        serving(server, tmp_path, "--dtype", "float64") as process,
        relayed(process, tmp_path, tmp_path / "sock") as relay,
    ):
        where = ("--server", server, "--cache-dir", str(tmp_path), "--dtype", "float64", "--offline-wait", "0.5")
        daemon.kill()
        daemon.wait()
        asked = ("run", PROMPT, *where, "--json", "--max-new-tokens", "10")
        with Program("outrider", *asked, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as program:
            out, err = program.communicate(timeout=120)
            assert program.wait() == 0
    result = json.loads(out)
    assert result["finish_reason"] == "offline"
    assert len(result["provisional_token_ids"]) == 10
    unreached, *rest = err.splitlines()
    draft = "the draft model 'independent' writes alone until it answers"
    assert unreached == f"the server at {server} cannot be reached; {draft}"
    waiting, unconfirmed = rest
    assert waiting == "waiting up to 1 s for the server"
    assert "never confirmed: the server was out of reach" in unconfirmed
    assert relay.taken() == ["Accepted"]


def test_a_server_that_was_restarted_is_not_called_unreachable(models, tmp_path) -> None:
    """Its connection broke while nobody asked, which is noticed and mended before the answer begins."""
    drafts = ("--target", str(models / "target"), "--dtype", "float64")
    with outriderd(*drafts) as (daemon, server), serving(server, tmp_path, "--dtype", "float64"):
        where = ("--server", server, "--cache-dir", str(tmp_path), "--dtype", "float64", "--max-new-tokens", "4")
        daemon.kill()
        daemon.wait()
        with outriderd(*drafts, "--listen", server):
            asked = ("run", PROMPT, *where, "--json")
            with Program("outrider", *asked, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as program:
                out, err = program.communicate(timeout=120)
                assert program.wait() == 0
    assert len(json.loads(out)["token_ids"]) == 4
    assert err == ""
