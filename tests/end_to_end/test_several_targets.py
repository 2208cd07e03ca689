"""Two targets on one server, clients of both at once, streamed trees over gRPC: every answer is the target's own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from client.answer import Answer
from client.assembly import client_for, clients_for
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.errors import ServerRefusedError
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import parse_address
from common.protocol.errors import MisuseError
from common.protocol.messages import Failed, Settings
from common.rpc.errors import LinkError
from common.rpc.stub import Connection, connect
from server.engine import Engine
from server.options import ChosenTarget
from tests.drafts import make_moa_draft
from tests.families import make_checkpoint
from tests.server.harness import new_session, options_for, running
from tests.server.reference import Reference

TOKENS = 24
PROMPTS = (list(range(40, 100)), [7, 8, 9])
DRAFTS = {"llama": "deep", "qwen3": "small"}


@dataclass(frozen=True)
class TwoTargets:
    address: str
    engines: dict[str, Engine]
    references: dict[str, Reference]
    cache: Path

    @property
    def access(self) -> Access:
        return Access(parse_address(self.address))

    def truth(self, model: str, prompt: list[int]) -> tuple[int, ...]:
        return tuple(self.references[model].answer(prompt, TOKENS))

    async def ask(self, model: str, prompt: list[int]) -> Answer:
        """As a client of its own."""
        choice = DraftChoice(DRAFTS[model], dtype="float64", model=model)
        async with (
            client_for(self.access, choice, self.cache, download_bar) as client,
            client.converse(STREAM, client.load_drafter()) as conversation,
        ):
            assert client.description.model == model
            return await conversation.answer(prompt, Settings(TOKENS, idle="patient"), lambda final, provisional: None)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[TwoTargets]:
    """Of two families and sizes, one with a draft that needs state, the other with one that needs none."""
    targets = {
        "llama": make_checkpoint(tmp_path / "one", "llama"),
        "qwen3": make_checkpoint(tmp_path / "two", "qwen3", layers=2, hidden=36, seed=3),
    }
    drafts = make_moa_draft(tmp_path / "deep", targets["llama"]), make_checkpoint(tmp_path / "small", "qwen2", layers=1)
    options = options_for(targets["llama"], *drafts)
    requests = tuple(ChosenTarget(str(checkpoint), 4096, name) for name, checkpoint in targets.items())
    references = {name: Reference(checkpoint) for name, checkpoint in targets.items()}
    async with running(replace(options, target=replace(options.target, targets=requests))) as server:
        engines = dict(zip(targets, server.engines, strict=True))
        yield TwoTargets(server.address, engines, references, tmp_path / "cache")


async def test_four_clients_two_on_each_target_get_that_targets_own_answers(two: TwoTargets) -> None:
    asked = [(model, prompt) for prompt in PROMPTS for model in two.engines]
    answers = await asyncio.gather(*(two.ask(model, prompt) for model, prompt in asked))
    for (model, prompt), answer in zip(asked, answers, strict=True):
        assert not answer.note
        assert answer.tokens == two.truth(model, prompt)
        assert answer.stats.provisional_tokens > 0
        assert bool(answer.stats.state_bytes) == (model == "llama")
    for model, engine in two.engines.items():
        own = [answer for (asked_of, _), answer in zip(asked, answers, strict=True) if asked_of == model]
        assert engine.counters.committed_tokens == sum(len(answer.tokens) for answer in own)
        assert engine.counters.sessions == len(own)


async def test_a_client_that_fails_and_a_target_that_fails_or_drains_leave_the_other_alone(
    two: TwoTargets, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, other = two.engines["llama"], two.engines["qwen3"]

    async def asked_meanwhile(trouble: Awaitable[None]) -> None:
        answers = await asyncio.gather(*(two.ask("qwen3", prompt) for prompt in PROMPTS), trouble)
        assert [answer.tokens for answer in answers[: len(PROMPTS)]] == [two.truth("qwen3", each) for each in PROMPTS]

    async def break_the_protocol() -> None:
        async with connect(two.address) as connection:
            broken, stream = await new_session(connection), connection.generate()
            stream.send(replace(broken.open([5, 6], Settings(TOKENS)), tokens=(5, 10**6)))
            assert isinstance(await stream.receive(), Failed)

    async def break_a_pass() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(failing._target.model, "forward", lambda scheduled: 1 / 0)
            with pytest.raises(ServerRefusedError, match="could not compute this answer"):
                await two.ask("llama", PROMPTS[1])

    await asked_meanwhile(break_the_protocol())
    await asked_meanwhile(break_a_pass())
    await asked_meanwhile(failing.drain(30))
    with pytest.raises(ServerRefusedError, match="draining"):
        await two.ask("llama", PROMPTS[1])
    assert failing.counters.failed
    assert not other.counters.failed
    assert not other.counters.refused


async def test_a_client_that_names_no_model_gets_the_first_and_an_unknown_name_is_told_what_there_is(
    two: TwoTargets,
) -> None:
    async with client_for(two.access, DraftChoice("lookup"), two.cache, download_bar) as client:
        assert client.description.model == "llama"
        assert client.description.served == ("llama", "qwen3")
    with pytest.raises(MisuseError, match="this server has no model 'gemma'; choose from: llama, qwen3"):
        async with client_for(two.access, DraftChoice(model="gemma"), two.cache, download_bar):
            pass


async def test_one_program_may_talk_to_all_targets_on_one_connection(two: TwoTargets) -> None:
    choice = DraftChoice("lookup")
    async with clients_for(two.access, choice, (), two.cache, download_bar) as clients:
        assert [client.description.model for client in clients] == ["llama", "qwen3"]
        assert clients[0].connection is clients[1].connection
        assert clients[0].bundle != clients[1].bundle
    async with clients_for(two.access, choice, ["qwen3"], two.cache, download_bar) as clients:
        assert [client.description.model for client in clients] == ["qwen3"]
    async with clients_for(two.access, choice, ["qwen3", "llama", "qwen3"], two.cache, download_bar) as clients:
        assert [client.description.model for client in clients] == ["qwen3", "llama"]


async def test_all_targets_of_a_server_that_is_out_of_reach_are_at_hand_after_one_try(
    two: TwoTargets, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = DraftChoice("lookup")
    async with clients_for(two.access, choice, (), two.cache, download_bar):
        pass
    tries: list[str] = []

    async def unreachable(connection: Connection, timeout: float, model: str) -> None:
        tries.append(model)
        raise LinkError("it cannot be reached")

    monkeypatch.setattr(Connection, "describe", unreachable)
    async with clients_for(two.access, choice, (), two.cache, download_bar) as clients:
        assert [client.description.model for client in clients] == ["llama", "qwen3"]
        assert not any(client.was_reached for client in clients)
    assert tries == [""]
