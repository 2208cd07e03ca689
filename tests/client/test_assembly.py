"""The options for drafts and their state, refused where they cannot work."""

import asyncio
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from client.answer import OFFLINE
from client.assembly import Client, client_for
from client.cache.bundles import bundle_directory
from client.cache.known_servers import remember
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.link.replicas import describe
from client.link.stream import Access
from common.address import Address
from common.bundle import Bundle, TargetCard, make_manifest, write_bundle_file
from common.protocol.constraint import no_constraints
from common.protocol.errors import MisuseError
from common.protocol.messages import PROTOCOL_VERSION, Settings
from common.rpc.credentials import ClientTls
from common.rpc.description import ServerDescription
from tests.client.fakes import TERMS, ChainDrafter, FakeStream, decoded, target


def client(choice: DraftChoice) -> Client:
    nothing: Any = None
    described = ServerDescription(1, "0.1", "model", "f", 50, 400, 64, (0,), ("greedy", "coupled"), (), ())
    return Client(
        nothing,
        nothing,
        described,
        make_manifest("lookup", "lookup", "f", []),
        Path(),
        nothing,
        no_constraints,
        choice,
        round_trip=0.05,
        router_connection=nothing,
    )


@pytest.mark.parametrize(
    ("draft", "named"),
    [(None, "lookup"), ("ouroboros", "ouroboros"), ("lookahead+lookup", "lookahead+lookup")],
)
def test_what_drafts_has_its_own_name_whatever_bundle_it_is_loaded_from(draft, named):
    chosen = client(DraftChoice(draft))
    assert chosen.draft == named
    assert chosen.load_drafter().kind == named


def test_all_that_draft_together_are_named():
    one = make_manifest("ours", "moa", "f", [])
    other = make_manifest("small", "independent", "f", [])
    merged = replace(client(DraftChoice("ours+lookup+small")), manifest=one, others=((other, Path()),))
    assert merged.draft == "ours+small+lookup"


def test_what_stands_in_is_not_named_among_what_drafts():
    choice = DraftChoice("hydra+lookup", stand_in="moa")
    one, other = (make_manifest(name, name, "f", []) for name in ("hydra", "moa"))
    assert replace(client(choice), manifest=one, others=((other, Path()),)).draft == "hydra+lookup"


def test_auto_is_named_alone():
    with pytest.raises(MisuseError, match="write --draft auto"):
        DraftChoice("auto+lookup")


@pytest.mark.parametrize("dtype", [None, "int8", "float16", "int4", "int3"])
def test_state_comes_in_the_dtypes_of_the_wire(dtype):
    assert DraftChoice(state=dtype).state == dtype


@pytest.mark.parametrize("dtype", ["int6", "float32", ""])
def test_state_in_another_dtype_is_refused_before_anything_is_fetched(dtype):
    with pytest.raises(MisuseError, match=f"cannot come in '{dtype}'; choose from: int8, float16"):
        DraftChoice(state=dtype)


def test_layers_of_a_draft_that_runs_none_are_refused():
    assert client(DraftChoice()).load_drafter().state is None
    with pytest.raises(MisuseError, match="the draft model 'lookup' runs no layer of the target, not 1; choose 0"):
        client(DraftChoice(layers=1)).load_drafter()


@pytest.mark.parametrize("is_renewed", [True, False])
async def test_who_began_without_the_server_uses_the_connection_that_stands_since(is_renewed):
    """A conversation that began offline would show the draft model's text, and say that the server is away."""
    alone = client(DraftChoice())
    described = replace(alone.description, fingerprint=TERMS.fingerprint)
    begun = replace(alone, description=described, round_trip=math.inf)
    shared: Any = SimpleNamespace(
        current=None,
        is_renewed=is_renewed,
        open_stream=lambda counted, session: FakeStream(),
        renew=asyncio.Event().wait,
    )
    told = list[LinkState]()
    offline = OfflineOptions(limit_tokens=0, wait_s=0.05)
    async with begun.converse(STREAM, None, offline=offline, shared_connection=shared) as conversation:
        answer = await conversation.answer([1, 2], Settings(5), lambda *_: None, told.append)
    assert (LinkState.OFFLINE in told, bool(answer.tokens)) == (not is_renewed, is_renewed)


def test_a_rule_that_the_server_does_not_offer_is_refused():
    client(DraftChoice()).require_rule("coupled")
    with pytest.raises(MisuseError, match="does not offer the rule 'typical'; it offers greedy, coupled"):
        client(DraftChoice()).require_rule("typical")


def test_an_idle_policy_that_the_server_does_not_have_is_refused():
    there = replace(client(DraftChoice()).description, idle_policies=("auto", "eager"))
    asked = replace(client(DraftChoice()), description=there)
    asked.require_idle("")
    asked.require_idle("eager")
    with pytest.raises(MisuseError, match="no idle policy 'sleepy'; it has auto, eager"):
        asked.require_idle("sleepy")


async def test_a_release_with_one_target_whatever_it_is_asked_for_is_not_mistaken_for_another(tmp_path):
    described = client(DraftChoice()).description
    described = replace(described, version=PROTOCOL_VERSION)

    async def describe_model(seconds, model):
        return described

    older: Any = SimpleNamespace(describe=describe_model)
    assert await describe(older) == await describe(older, model="model") == described
    with pytest.raises(MisuseError, match="this server has no model 'other'; choose from: model"):
        await describe(older, model="other")


async def test_the_event_loop_goes_on_while_a_closed_conversation_waits_for_its_level() -> None:
    described = replace(client(DraftChoice()).description, fingerprint="target")
    shared: Any = SimpleNamespace(current=None, open_stream=lambda counted, session: FakeStream())
    begun, may_end = threading.Event(), threading.Event()

    def draft_slowly(path: Sequence[int]) -> int:
        begun.set()
        assert may_end.wait(timeout=20), "the event loop stood still"
        return target(path)

    async def ask() -> None:
        asked = replace(client(DraftChoice()), description=described)
        async with asked.converse(STREAM, ChainDrafter(draft_slowly), shared_connection=shared) as conversation:
            answering = asyncio.create_task(conversation.answer((1, 2, 3), Settings(3), lambda tokens, run: None))
            await asyncio.to_thread(begun.wait, 20)
            assert (await answering).tokens == decoded((1, 2, 3), 3)

    asking = asyncio.create_task(ask())
    await asyncio.to_thread(begun.wait, 20)
    done, _ = await asyncio.wait([asking], timeout=0.2)
    assert not done, "the level is left behind"
    may_end.set()
    await asking


@pytest.mark.parametrize("mode", ["int3", "", "INT8", "bfloat16"])
def test_weights_in_a_mode_that_does_not_exist_are_refused(mode):
    with pytest.raises(MisuseError, match="choose from: as-is, int8, int4"):
        DraftChoice(weights=mode)


async def test_a_network_that_wants_a_login_first_leaves_the_answer_to_the_draft(tmp_path, monkeypatch):
    """It answers every connection by itself, which breaks TLS."""

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://login\r\n\r\n")
        writer.close()

    manifest = make_manifest("lookup", "lookup", "f", [])
    described = replace(client(DraftChoice()).description, version=PROTOCOL_VERSION, bundles=(manifest,))
    bundle = bundle_directory(tmp_path, manifest)
    bundle.mkdir(parents=True)
    write_bundle_file(bundle, Bundle(manifest, TargetCard("model", "f", 50, 400, ())))
    no_download: Any = None
    monkeypatch.setattr("client.assembly.tokenizer_of", lambda *_: None)
    portal = await asyncio.start_server(redirect, "127.0.0.1", 0)
    here = Address(*portal.sockets[0].getsockname())
    remember(tmp_path, str(here), described)
    async with portal, client_for(Access(here, ClientTls()), DraftChoice(), tmp_path, no_download) as begun:
        assert not begun.was_reached
        assert begun.hung_up_by == f"the server at {here} speaks no TLS; leave the TLS options out"
        was_reached = replace(begun, round_trip=0.05)
        drafter = ChainDrafter(target)
        async with was_reached.converse(STREAM, drafter, offline=OfflineOptions(3, wait_s=0.0)) as conversation:
            answer = await conversation.answer((1, 2, 3), Settings(5), lambda *_: None)
    assert (answer.finish_reason, answer.provisional, answer.note) == (OFFLINE, decoded((1, 2, 3), 3), begun.hung_up_by)
