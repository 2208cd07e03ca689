"""The servers that are compared, as processes."""

import time
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from client.answering import AnswerOptions
from client.assembly import client_for
from client.demo.asking import ask_tokens
from client.demo.children import running
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import CLOUD
from client.link.stream import Access
from common.address import parse_destination
from common.protocol.errors import OutriderError
from netem.experiments.others import systems as systems_module
from netem.experiments.others.heard import Heard
from netem.experiments.others.systems import ComparedModels, OutriderSystem, running_servers
from netem.experiments.quiet import no_bar
from netem.experiments.speed.systems import CLOUD_DECODING
from tests.netem.experiments.others.models import make_llama

PROMPT = [*range(40, 140)]  # more than a prefix cache takes at least


@pytest.mark.usefixtures("forked_servers")
async def test_a_prompt_that_was_asked_before_costs_our_servers_the_same_again(tmp_path, monkeypatch):
    started = []

    @asynccontextmanager
    async def kept(*command):
        async with running(*command) as child:
            started.append(child)
            yield child

    @asynccontextmanager
    async def of_others(command):
        yield "an address"

    monkeypatch.setattr(systems_module, "running", kept)
    monkeypatch.setattr(systems_module, "running_server", of_others)
    target, nothing = make_llama(tmp_path / "target", seed=1), Path("unused")
    async with running_servers(ComparedModels(target, nothing, [], nothing, nothing, nothing), 8) as servers:
        access = Access(parse_destination(servers.outrider))
        async with client_for(access, DraftChoice(), tmp_path / "cache", no_bar) as client:
            for _ in range(2):
                await ask_tokens(client, PROMPT, AnswerOptions(CLOUD, 4), None)
    [summary] = [child.summary() for child in started]
    assert summary["prefix_cache_hits"] == 0
    assert summary["prefix_cache_queries"] == 2 * (len(PROMPT) - 1)


async def test_our_answers_share_a_connection_as_those_of_serve_do():
    connection, used = object(), []

    async def refuse(*_):
        raise OutriderError("no answer is needed")

    @asynccontextmanager
    async def converse(*_, shared_connection):
        used.append(shared_connection)
        yield SimpleNamespace(answer=refuse)

    system = OutriderSystem(SimpleNamespace(converse=converse), connection, None, CLOUD_DECODING)
    for _ in range(2):
        await system.ask(PROMPT, 4, Heard(time.perf_counter))
    assert used == [connection, connection]
