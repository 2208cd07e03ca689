"""Private text never leaves the client: checked on the bytes between real clients and real servers."""

import hashlib
import io
import json
import random
import string
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from client.assembly import Client, client_for
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.stream import Access
from client.private.spans import BEGIN, END
from client.terminal.progress import download_bar
from client.text import chat_prompt, decode, raw_tokens
from common.address import parse_address
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.protocol.messages import Ack, Extend, Grow, Open, Ping, Settings, StateAck
from common.protocol.views import Proposal
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from tests.client.test_cli import outrider
from tests.client.wiretap import Said, Wiretap, generated, tapped
from tests.daemon import outriderd
from tests.drafts import make_moa_draft
from tests.families import make_checkpoint
from tests.programs import finished

PROMPTS = 100
STATE_ALONE = Settings(max_new_tokens=0)
CHOICE = DraftChoice("moa", dtype="float64", threads=1, layers=1)
CONTROL = (Ack, StateAck, Ping)


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("models")
    target = make_checkpoint(folder / "target", "llama")
    draft = make_moa_draft(folder / "moa", target)
    with outriderd("--target", str(target), "--draft", str(draft), "--dtype", "float64") as (_, address):
        yield address


@pytest.fixture(scope="module")
def cache(tmp_path_factory, server) -> Path:
    """The bundle is in it."""
    folder = tmp_path_factory.mktemp("cache")
    finished("outrider", "pull", "--server", server, "--cache-dir", str(folder))
    return folder


@pytest.fixture
def tap(server) -> Iterator[Wiretap]:
    with tapped(server) as tap:
        yield tap


class Quoting:
    """Feeds a real drafter and proposes what follows `start` in the text: the worst case of an answer that quotes it
    all."""

    kind, expansion = "quoting", Expansion()

    def __init__(self, drafter, start: int, count: int):
        self.state = drafter.state
        self._drafter, self._start, self._count = drafter, start, count
        self._quoted = 0

    def draft(self, view, states=()):
        if states:
            self._drafter.draft(view, states)
        if self._quoted == self._count:
            return []
        self._quoted += 1
        return [Proposal(0, view.tokens[self._start + self._quoted - 1], -0.1)]


def canary(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_letters + string.digits, k=24))


def safe_text(rng: random.Random) -> str:
    words = ["the", "quick", "fox", "naïve", "日本語", "\n", "a model", "rides?"]
    return " ".join(rng.choices(words, k=rng.randint(0, 30))) + rng.choice(["", " ", ": "])


def wired(tokenizer, text: str) -> bytes:
    """The token ids of a text as a frame carries them, without the first and last, which neighbours may change."""
    return pb.Extend(tokens=raw_tokens(tokenizer, text)[1:-1]).SerializeToString()[2:]


def check_silence(tap: Wiretap, tokenizer, *canaries: str) -> None:
    """None of the canaries was sent, neither as text nor as token ids."""
    for each in canaries:
        assert len(wired(tokenizer, each)) > 10
        assert each.encode() not in tap.everything
        assert wired(tokenizer, each) not in tap.everything


def unnamed(headers: bytes, session: str) -> bytes:
    """Headers of a stream without the digest of its session's id, which they hold once."""
    digest = hashlib.sha256(session.encode()).hexdigest()[:32].encode()
    assert headers.count(digest) == 1
    return headers.replace(digest, b"")


def opened_by(said: Said, tokens: tuple[int, ...]) -> Open:
    """The stream's Open, if it holds exactly `tokens` and the rest of the stream holds no tokens."""
    first, *others = said.messages
    assert isinstance(first, Open)
    assert (first.tokens, first.prompt_length, first.settings) == (tokens, len(tokens), STATE_ALONE)
    assert all(isinstance(each, CONTROL) or each == Grow(0, len(tokens), ()) for each in others)
    return first


async def answered(client: Client, drafter: Drafter, messages: list[dict[str, str]]) -> tuple[str, str]:
    """What a drafter answers to a private prompt that quotes from it, and in a second turn of that session."""
    prompt = chat_prompt(client.tokenizer, messages)
    quoting = Quoting(drafter, len(prompt.safe), count=28)
    async with client.converse(STREAM, quoting) as conversation:
        router = client.privacy_router(conversation)
        first = await router.answer(prompt, Settings(400), lambda committed, provisional: None)
        text = decode(client.tokenizer, first.provisional)
        more = [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": f"and {messages[-1]}"}]
        quoting._quoted = 0
        again = chat_prompt(client.tokenizer, more)
        second = await router.answer(again, Settings(400), lambda committed, provisional: None)
    assert (first.note, first.failure, second.note, second.failure) == ("", "", "", "")
    return text, decode(client.tokenizer, second.provisional)


async def test_of_many_prompts_exactly_what_is_safe_goes_up(tap, cache):
    rng, canaries, safes = random.Random(1), [], []
    access = Access(parse_address(tap.address))
    template = "<|turn|>user\n{}"
    async with client_for(access, CHOICE, cache, download_bar) as client:
        tokenizer, drafter = client.tokenizer, client.load_drafter()
        for _ in range(PROMPTS):
            safe, secret, follow_up = safe_text(rng), canary(rng), canary(rng)
            content = f"{safe}{BEGIN}{secret}{END} then {safe_text(rng)}{BEGIN}{END} {follow_up}"
            first, second = await answered(client, drafter, [{"role": "user", "content": content}])
            assert secret in first
            assert secret in second
            safes.append(tuple(tokenizer(template.format(safe), add_special_tokens=False)["input_ids"]))
            canaries += [secret, follow_up]
    streams = generated(tap)
    assert len(streams) == PROMPTS
    opened = [opened_by(said, tokens) for said, tokens in zip(streams, safes, strict=True)]
    # But for its name nothing of a session depends on anything but the safe tokens.
    assert {replace(each, session="", tokens=(), prompt_length=0) for each in opened} == {
        replace(opened[0], session="", tokens=(), prompt_length=0)
    }
    assert opened[0].state is not None
    # Headers that repeat are sent as the same few bytes; the name of the session is a digest of its id.
    assert len({unnamed(said.headers, each.session) for said, each in zip(streams[1:], opened[1:], strict=True)}) == 1
    check_silence(tap, tokenizer, *canaries)


async def test_a_tap_hears_what_is_not_private(tap, cache):
    """Shows that the wiretap would see private text if it were sent."""
    secret = canary(random.Random(2))
    access = Access(parse_address(tap.address))
    async with client_for(access, CHOICE, cache, download_bar) as client:
        async with client.converse(STREAM, client.load_drafter()) as conversation:
            await client.privacy_router(conversation).answer(
                chat_prompt(client.tokenizer, [{"role": "user", "content": f"say {secret}"}]),
                Settings(4),
                lambda committed, provisional: None,
            )
        with pytest.raises(AssertionError):
            check_silence(tap, client.tokenizer, secret)


def asked(monkeypatch, capsys, tap, cache, *arguments: str) -> tuple[int, str, str]:
    where = ["--server", tap.address, "--cache-dir", str(cache), "--max-new-tokens", "12"]
    return outrider(monkeypatch, capsys, "run", *arguments, *where)


def test_run_keeps_a_file_private_and_says_whose_the_answer_is(monkeypatch, capsys, tmp_path, tap, cache, server):
    secret = canary(random.Random(3))
    (tmp_path / "secret.txt").write_text(f"my {secret}")
    private = ["sum up:", "--raw", "--private-file", str(tmp_path / "secret.txt")]
    code, out, err = asked(monkeypatch, capsys, tap, cache, *private, "--json")
    result = json.loads(out)
    assert (code, result["private"], result["text"], result["token_ids"]) == (0, True, "", [])
    assert result["finish_reason"] in ("stop", "length")
    assert 0 < len(result["provisional_token_ids"]) <= 12
    assert result["stats"]["bytes_up"] > 0
    assert "the answer is the draft model's own, because the prompt is private" in err
    _, shown, told = asked(monkeypatch, capsys, tap, cache, *private)
    assert shown.rstrip("\n") == result["provisional_text"].rstrip("\N{REPLACEMENT CHARACTER}\n")
    assert told.count("\n") == 1
    tokenizer = AutoTokenizer.from_pretrained(next(cache.glob("**/tokenizer")))
    for said in generated(tap):
        opened_by(said, tuple(raw_tokens(tokenizer, "sum up:\n")))
    assert len(generated(tap)) == 2
    check_silence(tap, tokenizer, secret)


def test_an_answer_to_a_plain_prompt_says_that_it_is_not_private(monkeypatch, capsys, tap, cache):
    _, out, _ = asked(monkeypatch, capsys, tap, cache, "hello", "--json")
    assert json.loads(out)["private"] is False


def test_a_chat_is_private_from_its_first_span_on(monkeypatch, capsys, tap, cache, server):
    rng = random.Random(4)
    secret, later = canary(rng), canary(rng)
    typed = f"hello\nmy name is {BEGIN}{secret}{END}, hear?\nand {later}\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    arguments = ["--server", tap.address, "--cache-dir", str(cache), "--max-new-tokens", "8"]
    code, _, err = outrider(monkeypatch, capsys, "chat", *arguments)
    assert code == 0
    assert err.count("the answer is the draft model's own") == 2
    (said,) = generated(tap)
    (extend,) = [each for each in said.messages if isinstance(each, Extend)]
    tokenizer = AutoTokenizer.from_pretrained(next(cache.glob("**/tokenizer")))
    assert extend.settings == STATE_ALONE
    assert tokenizer.decode(extend.tokens).endswith("<|turn|>user\nmy name is ")
    behind = said.messages[said.messages.index(extend) + 1 :]
    frontier = extend.keep + len(extend.tokens)
    assert all(isinstance(each, CONTROL) or each == Grow(1, frontier, ()) for each in behind)
    check_silence(tap, tokenizer, secret, later)


@pytest.mark.parametrize("arguments", [["run", f"sum up {BEGIN}this{END}", "--policy", "cloud"], ["chat"]])
def test_what_cannot_be_private_is_misuse_and_nothing_of_it_goes_up(monkeypatch, capsys, tap, cache, arguments):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"sum up {BEGIN} this\n"))
    code, out, err = outrider(monkeypatch, capsys, *arguments, "--server", tap.address, "--cache-dir", str(cache))
    assert (code, out.strip(), err.count("\n")) == (2, "", 1)
    assert [said for said in generated(tap) if said.messages] == []


def test_without_its_server_a_known_client_answers_privately(monkeypatch, capsys, server, tmp_path):
    with tapped(server) as tap:
        asked(monkeypatch, capsys, tap, tmp_path, "hello")
    arguments = ["--server", tap.address, "--cache-dir", str(tmp_path), "--offline-wait", "0.1", "--json"]
    code, out, err = outrider(
        monkeypatch, capsys, "run", f"sum up {BEGIN}this{END}", *arguments, "--max-new-tokens", "12"
    )
    assert code == 0
    assert len(json.loads(out)["provisional_token_ids"]) > 0
    assert "the draft model wrote without" in err
