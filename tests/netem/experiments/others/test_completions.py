"""What a client hears of completion servers: a scripted one, transformers' shell, and llama.cpp's own where it is."""

import asyncio
import json
import shutil
import time
from contextlib import suppress

import pytest

from client.text import chat_tokens
from common.address import Address
from common.models.checkpoint import load_causal_lm, load_tokenizer
from common.models.shipped import FAMILIES
from netem.experiments.others.completions import CompletionServer, client_of, until_healthy
from netem.experiments.others.generate_server import Generator, make_app
from netem.experiments.others.gguf_file import write_gguf
from netem.experiments.others.heard import Heard, without_end
from netem.experiments.others.llama_server import find_llama_server
from netem.experiments.others.other_servers import LlamaDraft, llama_command, running_server
from netem.experiments.references import reference_answer
from tests.netem.experiments.others.models import make_llama
from tests.netem.experiments.others.serving import served, stand_in

PROMPT = [5, 9, 3, 9, 7]
NEW_TOKENS = 24
END_TOKENS = (4,)
"""Of the demo's target."""


async def heard_from(address, prompt=PROMPT, new_tokens=NEW_TOKENS, read_timeout_s=30.0) -> Heard:
    heard = Heard(time.perf_counter)
    async with client_of(address, read_timeout_s) as client:
        await CompletionServer(client).ask(prompt, new_tokens, heard)
    return heard


async def test_pieces_are_heard_in_order_and_passes_are_what_was_not_accepted():
    last = {"tokens_predicted": 6, "timings": {"draft_n": 8, "draft_n_accepted": 3}}
    async with served(stand_in([[1], [2, 3], [4, 5]], last, pause_s=0.02)) as address:
        assert await until_healthy(address, 5.0)
        heard = await heard_from(address)
    assert (heard.tokens, heard.passes, heard.drafted, heard.end, heard.error) == ((1, 2, 3, 4, 5), 3, 8, "eos", "")
    times = [at for at, _ in heard.arrivals]
    assert times == sorted(times)
    assert 0 < heard.first_s < times[-1] <= heard.seconds


async def test_a_server_is_asked_past_a_proxy_of_the_environment(unreachable_proxy):
    async with served(stand_in([[1]], {})) as address:
        assert await until_healthy(address, 5.0)
        assert (await heard_from(address)).tokens == (1,)


async def test_no_answer_is_asked_for_with_what_a_prompt_before_left():
    asked: list[dict] = []
    async with served(stand_in([[1]], {}, asked=asked)) as address:
        await heard_from(address)
    expected = {"prompt": PROMPT, "n_predict": NEW_TOKENS, "temperature": 0, "stream": True, "cache_prompt": False}
    assert asked == [expected]


async def test_answers_share_a_connection():
    clients = set()

    class Counting:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            if scope["type"] == "http":
                clients.add(scope["client"])
            await self.app(scope, receive, send)

    async with served(Counting(stand_in([[1], [2]], {}))) as address, client_of(address, 5.0) as client:
        system = CompletionServer(client)
        for _ in range(3):
            await system.connect()
            await system.ask(PROMPT, NEW_TOKENS, Heard(time.perf_counter))
    assert len(clients) == 1


async def test_a_connection_that_closes_while_it_is_asked_is_opened_again():
    opened = 0

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        with suppress(asyncio.IncompleteReadError):  # the client has left
            await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer_once, "127.0.0.1", 0) as server:
        address = Address(*server.sockets[0].getsockname())
        async with client_of(address, 5.0) as client:
            for _ in range(2):
                await CompletionServer(client).connect()
    assert opened == 2


async def test_a_server_that_falls_silent_is_left_with_its_clients_own_words():
    async with served(stand_in([[1], [2]], {}, stalls=True)) as address:
        heard = await heard_from(address, read_timeout_s=0.3)
    assert heard.tokens == (1, 2)
    assert heard.error == "APITimeoutError: Request timed out."


async def test_an_answer_without_its_last_event_is_not_whole():
    async with served(stand_in([[1], [2]], None)) as address:
        heard = await heard_from(address)
    assert heard.tokens == (1, 2)
    assert heard.error == "the stream ended in mid-answer"


@pytest.mark.parametrize("assisted", [False, True])
async def test_generate_behind_http_streams_what_generate_answers(tmp_path, assisted):
    target = make_llama(tmp_path / "target", seed=1)
    settings = target / "generation_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"repetition_penalty": 5.0}))
    # The target drafts for itself: nearly all is accepted.
    generator = Generator(target, target if assisted else None)
    reference = reference_answer(load_causal_lm(target), PROMPT, (0,), NEW_TOKENS)
    async with served(make_app(generator)) as address:
        heard = [await heard_from(address) for _ in range(2)]
    for each in heard:
        assert each.tokens == reference.answer
        assert each.passes < len(each.tokens) if assisted else each.passes == len(each.tokens)
        assert (each.drafted > 0) == assisted
        assert len(each.arrivals) > 1, "it is streamed"


@pytest.mark.skipif(shutil.which("llama-server") is None, reason="llama.cpp's server is not on PATH")
@pytest.mark.parametrize("drafted", [False, True])
async def test_llama_cpp_answers_what_generate_answers(tmp_path, drafted):
    target = FAMILIES["demo"].target  # a random model writes parts of characters, of which llama.cpp streams no ids
    prompt = chat_tokens(
        load_tokenizer(target), [{"role": "user", "content": "Write a function that adds two numbers."}]
    )
    write_gguf(target, tmp_path / "target.gguf")
    reference = reference_answer(load_causal_lm(target), prompt, END_TOKENS, NEW_TOKENS)
    draft = LlamaDraft(tmp_path / "target.gguf", 4) if drafted else None
    async with running_server(llama_command(find_llama_server(None), tmp_path / "target.gguf", draft)) as address:
        heard = await heard_from(address, prompt)
    assert without_end(heard.tokens, END_TOKENS) == without_end(reference.answer, END_TOKENS)
    assert (heard.drafted > 0) == drafted
    assert heard.passes < len(heard.tokens) if drafted else heard.passes >= len(heard.tokens)
