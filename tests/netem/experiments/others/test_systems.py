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
from common.stated_costs import overrun_share
from netem.experiments.others import systems as systems_module
from netem.experiments.others.heard import Heard
from netem.experiments.others.systems import EAGER_MOA, OURS, ComparedModels, OutriderSystem, running_servers
from netem.experiments.quiet import no_bar
from netem.experiments.speed.systems import CLOUD_DECODING
from tests.netem.experiments.others.models import make_llama

PROMPT = [*range(40, 140)]  # more than a prefix cache takes at least


@pytest.mark.usefixtures("forked_servers")
async def test_a_prompt_that_was_asked_before_costs_our_servers_the_same_again(tmp_path, monkeypatch):
    started, two = [], (CLOUD_DECODING.name, EAGER_MOA)

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
    monkeypatch.setattr(systems_module, "OURS", {name: OURS[name] for name in two})
    target, nothing = make_llama(tmp_path / "target", seed=1), Path("unused")
    async with running_servers(ComparedModels(target, nothing, [], nothing, nothing, nothing), 8) as servers:
        of_two = [await servers.stated[name].ready() for name in two]
        for address in (servers.outrider, *of_two):
            access = Access(parse_destination(address))
            async with client_for(access, DraftChoice(), tmp_path / "cache", no_bar) as client:
                for _ in range(2):
                    await ask_tokens(client, PROMPT, AnswerOptions(CLOUD, 4), None)
    summaries = [child.summary() for child in started]
    assert [*servers.stated.values()] == started[1:], "their counters say whether the stated costs were kept"
    assert all(0 <= overrun_share(each) <= 1 for each in summaries[1:])
    assert [each["prefix_cache_hits"] for each in summaries] == [0, 0, 0]
    assert [each["prefix_cache_queries"] for each in summaries] == [2 * (len(PROMPT) - 1)] * 3


async def test_our_answers_share_a_connection_as_those_of_serve_do():
    connection, used = object(), []

    async def refuse(*_):
        raise OutriderError("no answer is needed")

    @asynccontextmanager
    async def converse(*_, shared_connection):
        used.append(shared_connection)
        yield SimpleNamespace(answer=refuse)

    system = OutriderSystem(SimpleNamespace(converse=converse), connection, None, CLOUD_DECODING, 0.0)
    for _ in range(2):
        await system.ask(PROMPT, 4, Heard(time.perf_counter))
    assert used == [connection, connection]
