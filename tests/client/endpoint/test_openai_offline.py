"""`outrider serve` while its server is down, as applications see it through OpenAI's own client."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import openai
import pytest

from client.link.offline import DEFAULT_NOTE
from tests.client.endpoint.serving import MODEL, QUESTION, client_of, outrider_serve, pieces
from tests.daemon import outriderd
from tests.families import make_checkpoint

TOKENS = 80


class Server:
    """An `outriderd` that can be killed and started again on its port."""

    def __init__(self, models: Path, stack: ExitStack):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self._models = models
        self._stack = stack
        self.begin()

    def begin(self) -> None:
        drafts = ("--draft", str(self._models / "independent"), "--dtype", "float64", "--pace-pass", "40ms")
        serving = outriderd("--target", str(self._models / "target"), *drafts, "--listen", self.address)
        self._process, _ = self._stack.enter_context(serving)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "target", "llama", seed=1)
    make_checkpoint(folder / "independent", "llama", seed=1)
    return folder


@pytest.fixture
def server(models) -> Iterator[Server]:
    with ExitStack() as stack:
        yield Server(models, stack)


def serving(server: Server, models: Path, *settings: str):
    return outrider_serve("--server", server.address, "--cache-dir", str(models / "cache"), *settings)


def ask(client: openai.OpenAI, **settings):
    settings = {"temperature": 1.0, "seed": 3, "max_tokens": TOKENS, **settings}
    return client.chat.completions.create(model=MODEL, messages=QUESTION, **settings)


def history_of(answer: str) -> list[dict]:
    return [*QUESTION, {"role": "assistant", "content": answer}, *QUESTION]


def going_on(client: openai.OpenAI, messages: list[dict]) -> str:
    return client.chat.completions.create(model=MODEL, messages=messages, max_tokens=12).choices[0].message.content


def killing(server: Server, stream) -> tuple[str, str, list]:
    """The text before the server was killed (after the first piece), the text since, and all chunks."""
    before, since, chunks = "", "", []
    for chunk in stream:
        chunks.append(chunk)
        text = chunk.choices[0].delta.content or ""
        if "outrider" in chunk.model_extra and text:
            since += text
        else:
            before += text
        if before and len(chunks) < 4:
            server.kill()
    return before, since, chunks


def test_an_answer_is_finished_by_the_draft_and_marked_and_the_next_one_is_the_targets_again(server, models):
    with serving(server, models, "--offline-limit", "30", "--offline-wait", "0.5") as address:
        client = client_of(address)
        expected = ask(client).choices[0].message.content
        before, since, chunks = killing(server, ask(client, stream=True))
        assert before
        assert since
        assert expected.startswith(before)
        online, offline = chunks[1].system_fingerprint, chunks[-1].system_fingerprint
        assert offline.startswith("fp_offline_")
        assert online != offline
        marked = [chunk for chunk in chunks if "outrider" in chunk.model_extra]
        assert all(chunk.outrider["offline"] for chunk in marked)
        assert marked == [chunk for chunk in chunks if chunk.system_fingerprint == offline]
        assert chunks[-1].outrider["unconfirmed_tokens"] <= 30
        assert chunks[-1].choices[0].finish_reason == "length"
        assert since.endswith(f"\n\n{DEFAULT_NOTE}")
        assert since.count(DEFAULT_NOTE) == 1

        whole = ask(client, max_tokens=12)
        assert whole.outrider["offline"], "nobody is there yet"
        assert whole.usage.completion_tokens == 12
        assert DEFAULT_NOTE not in whole.choices[0].message.content

        server.begin()
        assert ask(client).choices[0].message.content == expected
        with_note, without = (history_of(before + since[: end or len(since)]) for end in (0, -len(DEFAULT_NOTE) - 2))
        assert with_note != without
        assert going_on(client, with_note) == going_on(client, without)


def test_who_would_rather_have_no_answer_is_refused_and_told_when_to_come_back(server, models):
    with serving(server, models, "--offline", "refuse", "--offline-wait", "0.5") as address:
        client = client_of(address)
        expected = ask(client).choices[0].message.content
        stream, received = ask(client, stream=True), ""
        while not received:
            received += next(stream).choices[0].delta.content or ""
        server.kill()
        with pytest.raises(openai.APIError, match="out of reach"):
            received += "".join(pieces(stream))
        assert expected.startswith(received)
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError, match="out of reach") as refused:
                ask(client, stream=stream)
            assert refused.value.status_code == 503
            assert int(refused.value.response.headers["retry-after"]) > 0
        server.begin()
        assert ask(client).choices[0].message.content == expected


def test_it_starts_without_a_server_from_what_is_in_the_cache(server, models):
    with serving(server, models) as address:
        expected = ask(client_of(address)).choices[0].message.content
    server.kill()
    with serving(server, models, "--offline-note", "(alone)") as address:
        client = client_of(address)
        alone = ask(client, max_tokens=12)
        streamed = "".join(pieces(ask(client, max_tokens=12, stream=True)))
        assert streamed == alone.choices[0].message.content + "\n\n(alone)"
        assert alone.outrider["offline"]
        assert len(alone.choices[0].message.content) > 0
        server.begin()
        assert ask(client).choices[0].message.content == expected
