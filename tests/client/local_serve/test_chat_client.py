"""client.local_serve.chat_client: `outrider chat` says the same on a running `outrider serve` as by itself.

It goes on where that one ends, and what is private stays so.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from client.answering import AnswerOptions
from client.assembly import client_for
from client.chat.chat_session import ChatSession
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.link.reconnecting_stream import ignore_link_changes
from client.link.stream import Access
from client.local_serve.chat_client import GONE, SocketChatClient, chat_client_of_serve
from client.local_serve.messages import Declined
from client.local_serve.request import RequestOptions
from client.options.answers import AnswerFlags
from client.options.connection import Credentials
from client.options.outages import OfflineFlags
from client.private.spans import BEGIN, END
from client.terminal.progress import download_bar
from common.address import parse_address
from common.protocol.errors import OutriderError
from tests.client.chat.pty_session import forked_on_terminal
from tests.client.private.test_spans_wire import check_silence
from tests.client.wiretap import Wiretap, tapped
from tests.daemon import outriderd, ready
from tests.families import make_checkpoint
from tests.programs import Program

LOADS = {"draft": None, "device": "cpu", "dtype": "float64", "threads": 1, "layers": None, "state": None}
OPTIONS = AnswerOptions(STREAM, 16)
SECRET, LATER = "kR4vTq9ZpLw2XyBd7NhS", "mJ8sGf3HcUa6QeVi0OtK"
LOADED_HERE = f"{GONE}; the draft is loaded here\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "target", "llama", seed=1)
    make_checkpoint(folder / "same", "llama", seed=1)
    return folder


@pytest.fixture(scope="module")
def tap(models) -> Iterator[Wiretap]:
    drafts = ("--target", str(models / "target"), "--draft", str(models / "same"), "--dtype", "float64")
    with outriderd(*drafts, "--pace-pass", "30ms") as (_, address), tapped(address) as tap:
        yield tap


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@contextmanager
def serving(server: str, cache: Path) -> Iterator[Program]:
    where = ("--server", server, "--cache-dir", str(cache), "--listen", "127.0.0.1:0")
    process = Program("outrider", "serve", *where, "--dtype", "float64", "--threads", "1", stdout=DEVNULL, stderr=PIPE)
    with ready(process):
        yield process


@pytest.fixture
def serve(tap, cache) -> Iterator[Program]:
    with serving(tap.address, cache) as process:
        yield process


Talk = Callable[..., tuple[int, str, str]]


@pytest.fixture
def talk(tap, cache) -> Talk:
    where = ("--server", tap.address, "--cache-dir", str(cache), "--dtype", "float64", "--threads", "1")

    def say(*arguments: str, lines: tuple[str, ...]) -> tuple[int, str, str]:
        asked = ("chat", *where, "--max-new-tokens", "16", *arguments)
        with Program("outrider", *asked, stdin=PIPE, stdout=PIPE, stderr=PIPE) as program:
            out, err = program.communicate("".join(f"{line}\n" for line in lines), timeout=200)
            return program.wait(), out, err

    return say


async def never() -> None:
    raise AssertionError("it is loaded here")


@asynccontextmanager
async def chatting(tap: Wiretap, cache: Path, *, may_load: bool = False):
    """A chat on the running `outrider serve`."""
    async with AsyncExitStack() as stack:

        async def load():
            choice = DraftChoice(**LOADS)
            client = client_for(Access(parse_address(tap.address)), choice, cache, download_bar)
            return await stack.enter_async_context(client)

        options = RequestOptions(Credentials(), AnswerFlags(), OfflineFlags(), LOADS)
        client = chat_client_of_serve(cache, tap.address, options, load if may_load else never)
        assert isinstance(client, SocketChatClient)
        chat_session = ChatSession(client, STREAM, OfflineOptions())
        await chat_session.begin()
        try:
            yield chat_session
        finally:
            await chat_session.close()


async def ask(chat_session: ChatSession, question: str, on_tokens=lambda committed, provisional: None, options=OPTIONS):
    return await chat_session.ask(question, options, on_tokens, ignore_link_changes)


CHATS = {
    "plain": ((), ("hello", "and again", "/retry")),
    "drawn": (("--temperature", "0.8", "--seed", "7"), ("hello", "/set stop a", "and again")),
    "without drafts": (("--policy", "cloud"), ("hello", "and again")),
    "by choice offline": ((), ("/offline", "hello", "/online", "and again")),
    "private": ((), ("hello", f"sum {BEGIN}up{END}", "and again", "/offline", "/new", "hello")),
}


@pytest.mark.parametrize(("options", "lines"), CHATS.values(), ids=CHATS)
def test_a_chat_is_the_same(serve, talk, tmp_path, options, lines) -> None:
    given = {}
    for way in ("--via-serve", "--no-via-serve"):
        file = tmp_path / f"{way}.json"
        code, out, err = talk(way, *options, lines=(*lines, f"/save {file}"))
        assert code == 0, err
        assert GONE not in err
        given[way] = (out, json.loads(file.read_text()))
    assert given["--via-serve"] == given["--no-via-serve"]
    assert given["--via-serve"][0].strip()


async def test_a_chat_is_sent_no_manifests(serve, tap, cache) -> None:
    async with chatting(tap, cache) as chat_session:
        described = chat_session._client.description
    assert described.bundles == described.quantised == ()
    assert described.fingerprint


async def test_turns_extend_one_session_and_what_was_stopped_stays(serve, tap, cache) -> None:
    """With nothing loaded here."""
    async with chatting(tap, cache) as chat_session:
        whole = await ask(chat_session, "hello")
        assert len(whole.tokens) == 16
        seen: list[int] = []

        def stop(committed, provisional) -> None:
            seen.extend(committed)
            if len(seen) == len(committed) > 0:
                chat_session.cancel()

        # So long that it goes on while the first tokens come here and the word to stop goes back.
        stopped = await ask(chat_session, "and again", stop, replace(OPTIONS, max_new_tokens=200))
        assert stopped.finish_reason == "cancelled"
        assert list(stopped.tokens) == seen
        assert 0 < len(seen) < 200
        again = await ask(chat_session, "once more")
        assert len(again.tokens) == 16
        assert [bool(each.answer) for each in chat_session.exchanges] == [True] * 3
        # The round trip is measured once for a stream; a busy machine may break one.
        streams = 1 + sum(each.reconnects for each in chat_session.stats)
        assert 0 < len({each.rtt_ms for each in chat_session.stats}) <= streams
        assert len(chat_session.stats) == 3


async def test_an_answer_that_is_not_waited_for_leaves_the_next_as_it_is(serve, tap, cache) -> None:
    async with chatting(tap, cache) as chat_session:
        expected = await ask(chat_session, "hello")
        await chat_session.begin_anew()
        seen = asyncio.Event()
        asking = asyncio.create_task(ask(chat_session, "something else", lambda committed, _: committed and seen.set()))
        await asyncio.wait_for(seen.wait(), 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await chat_session.begin_anew()
        assert (await ask(chat_session, "hello")).tokens == expected.tokens


def tokenizer_files(cache: Path) -> list[Path]:
    return list(cache.glob("**/tokenizer"))


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_drafts_cross_the_socket_where_a_person_sees_them(serve, tap, cache, monkeypatch, is_terminal) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    runs: list[int] = []
    states: list[LinkState] = []
    async with chatting(tap, cache) as chat_session:
        chat_session.hold()
        answer = await chat_session.ask("hello", OPTIONS, lambda _, run: runs.append(len(run)), states.append)
        assert len(answer.provisional) > 0
        assert states[0] is LinkState.OFFLINE
        assert any(runs) is is_terminal
        chat_session.release()
        judged = await chat_session.verify(0, OPTIONS, lambda _, run: None, states.append)
        assert len(judged.tokens) == 16
        assert chat_session.exchanges[0].confirmed


def test_ctrl_c_stops_one_answer_and_the_next_is_whole(serve, tap, cache, tmp_path) -> None:
    where = ("--server", tap.address, "--cache-dir", str(cache), "--dtype", "float64", "--threads", "1")
    asked = ("chat", *where, "--max-new-tokens", "200")
    with Program("outrider", *asked, stdin=PIPE, stdout=PIPE, stderr=PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("hello\n")
        program.stdin.flush()
        assert program.stdout.read(1)
        program.send_signal(signal.SIGINT)
        lines = f"/set max-new-tokens 5\nand again\n/save {tmp_path / 'chat.json'}\n"
        _, err = program.communicate(lines, timeout=100)
        assert program.wait() == 0, err
    said = json.loads((tmp_path / "chat.json").read_text())["messages"]
    assert [each["role"] for each in said] == ["user", "assistant"] * 2
    assert all(each["content"] for each in said)
    assert "unconfirmed" not in said[1]
    assert GONE not in err


async def test_private_text_stays_here_also_where_the_other_end_is_gone(serve, tap, cache, capsys) -> None:
    from transformers import AutoTokenizer

    async with chatting(tap, cache, may_load=True) as chat_session:
        assert not (await ask(chat_session, "hello")).private
        assert (await ask(chat_session, f"sum up {BEGIN}{SECRET}{END}")).private
        assert chat_session.is_private
        serve.kill()
        serve.wait()
        assert chat_session.is_private
        answer = await ask(chat_session, f"and {LATER}?")
        assert answer.private
        assert answer.provisional
        assert chat_session.is_private
    assert capsys.readouterr().err == LOADED_HERE
    check_silence(tap, AutoTokenizer.from_pretrained(tokenizer_files(cache)[0]), SECRET, LATER)


async def test_a_private_question_without_an_answer_keeps_all_that_follows_private(serve, tap, cache) -> None:
    """The other end ends before it answers, so that no answered question tells of what was private."""
    from transformers import AutoTokenizer

    async with chatting(tap, cache) as chat_session:
        await ask(chat_session, "hello")
        serve.kill()
        serve.wait()
        with pytest.raises(AssertionError, match="it is loaded here"):
            await ask(chat_session, f"sum up {BEGIN}{SECRET}{END}")
        assert chat_session.is_private
        with serving(tap.address, cache):
            answer = await ask(chat_session, f"and {LATER}?")
            assert answer.private
            assert answer.provisional
    check_silence(tap, AutoTokenizer.from_pretrained(tokenizer_files(cache)[0]), SECRET, LATER)


async def test_one_that_ends_between_two_turns_is_told_once_and_the_chat_goes_on(serve, tap, cache, capsys) -> None:
    async with chatting(tap, cache) as chat_session:
        for question in ("hello", "and again", "once more"):
            await ask(chat_session, question)
        expected = chat_session.exchanges
    async with chatting(tap, cache, may_load=True) as chat_session:
        await ask(chat_session, "hello")
        serve.kill()
        serve.wait()
        for question in ("and again", "once more"):
            await ask(chat_session, question)
        assert chat_session.exchanges == expected
        await chat_session.begin_anew()
        await ask(chat_session, "hello")
        assert chat_session.exchanges == expected[:1]
    assert capsys.readouterr().err == LOADED_HERE


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_one_that_ends_in_mid_answer_breaks_it_off_and_the_chat_goes_on(tap, cache, capsys, number) -> None:
    with serving(tap.address, cache) as serve:
        async with chatting(tap, cache, may_load=True) as chat_session:
            seen: list[int] = []

            def kill(committed, provisional) -> None:
                if committed and not seen:
                    serve.send_signal(number)
                seen.extend(committed)

            answer = await chat_session.ask("hello", AnswerOptions(STREAM, 400), kill, ignore_link_changes)
            assert answer.failure == f"{GONE}; ask again"
            assert answer.finish_reason == "error"
            assert list(answer.tokens) == seen
            assert chat_session.exchanges[0].answer
            serve.wait(20)
            assert len((await ask(chat_session, "and again")).tokens) == 16
            assert [each.question for each in chat_session.exchanges] == ["hello", "and again"]
    assert capsys.readouterr().err == LOADED_HERE


async def test_where_another_one_runs_by_then_that_is_asked(serve, tap, cache, capsys) -> None:
    async with chatting(tap, cache) as chat_session:
        await ask(chat_session, "hello")
        with serving(tap.address, cache):
            serve.kill()
            serve.wait()
            with pytest.raises(AssertionError, match="it is loaded here"):
                await ask(chat_session, "and again")  # it is the connection that broke
            assert len((await ask(chat_session, "and again")).tokens) == 16


def test_what_was_loaded_otherwise_is_told_once(serve, talk) -> None:
    code, out, err = talk("--draft", "lookup", lines=("hello", "and again"))
    assert code == 0
    assert out.strip()
    assert err == "the running `outrider serve` drafts with 'same', not 'lookup'; the draft is loaded here\n"


def test_misuse_is_told_in_the_same_words(serve, talk) -> None:
    ways = [talk(way, "--rule", "nonsense", lines=("hello",)) for way in ("--via-serve", "--no-via-serve")]
    assert ways[0] == ways[1]
    assert ways[0][0] == 2
    ways = [talk(way, lines=("/set idle nonsense",)) for way in ("--via-serve", "--no-via-serve")]
    assert ways[0] == ways[1]
    assert "this server has no idle policy" in ways[0][2]


async def test_another_target_is_not_talked_to(serve, tap, cache) -> None:
    async with chatting(tap, cache) as chat_session:
        await ask(chat_session, "hello")
        client = chat_session._client
        client.description = replace(client.description, fingerprint="another")
        await chat_session.begin()
        with pytest.raises(OutriderError, match="the server has another target now"):
            await ask(chat_session, "and again")


async def test_a_chat_knows_at_once_that_the_server_went_away(models, tmp_path) -> None:
    drafts = ("--target", str(models / "target"), "--draft", str(models / "same"), "--dtype", "float64")
    with outriderd(*drafts) as (daemon, server), serving(server, tmp_path):
        options = RequestOptions(Credentials(), AnswerFlags(), OfflineFlags(), LOADS)
        for was_reached in (True, False):
            client = await asyncio.to_thread(chat_client_of_serve, tmp_path, server, options, never)
            assert isinstance(client, SocketChatClient)
            assert client.was_reached is was_reached
            client.close()
            daemon.kill()
            daemon.wait()


async def test_as_many_chats_as_places(serve, tap, cache) -> None:
    """The fifth loads what it needs, and is told why."""
    options = RequestOptions(Credentials(), AnswerFlags(), OfflineFlags(), LOADS)
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(chatting(tap, cache))
        declined = chat_client_of_serve(cache, tap.address, options, never)
    assert declined == Declined("the running `outrider serve` is full")


def test_a_person_at_a_terminal_sees_it_and_goes_on_without_it(serve, tap, cache, tmp_path) -> None:
    where = ("--server", tap.address, "--cache-dir", str(cache), "--dtype", "float64", "--threads", "1")
    asked = ("chat", *where, "--max-new-tokens", "12")
    with forked_on_terminal("outrider", *asked, XDG_STATE_HOME=str(tmp_path)) as session:
        session.until(lambda lines: lines[-1] == ">")
        assert "draft same; /help says" in session.text
        assert "12 tokens in" in session.ask("hello\r")
        assert "accept length" in session.ask("/stats\r")
        serve.kill()
        serve.wait()
        answer = session.ask("and again\r")
        assert LOADED_HERE.strip() in " ".join(answer.split())
        assert "12 tokens in" in answer
        assert session.text.count("12 tokens in") == 2
        session.type("/quit\r")
        assert session.end() == 0
