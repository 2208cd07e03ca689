"""Draft state over real gRPC: the numbers equal transformers' own K/V and hidden states, for any client."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
import torch
from transformers import DynamicCache

from common.codec import decode
from common.draft_models.eagle3 import load_fuse
from common.draft_models.moa import load_lsa
from common.models.checkpoint import load_causal_lm
from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, FromClient, FromServer, Settings, State, StateRequest
from common.rpc.stub import Connection, GenerateStream, connect
from tests.drafts import make_eagle3_draft, make_eagle_draft, make_moa_draft
from tests.families import FAMILIES
from tests.server.client_turn import play
from tests.server.harness import options_for, running
from tests.server.proposers import guessing, knowing, nothing
from tests.server.reference import Reference

TOKENS = 40


@dataclass
class Listening:
    """A wire that records the states that it receives."""

    stream: GenerateStream
    states: list[State] = field(default_factory=list)

    def send(self, message: FromClient) -> None:
        self.stream.send(message)

    async def receive(self) -> FromServer | None:
        message = await self.stream.receive()
        if isinstance(message, State):
            self.states.append(message)
        return message


async def stateful_session(connection: Connection, request: StateRequest) -> ClientSession:
    said = await connection.describe()
    limits = Limits(said.fingerprint, said.vocab_size, said.context, said.max_nodes)
    return ClientSession(uuid4().hex, limits, request)


@torch.inference_mode()
def truth(checkpoint: Path, draft: Path, layers: int, tokens: Sequence[int]) -> dict[str, torch.Tensor]:
    """What transformers' own forward computes, by kind, `[tokens, ...]`."""
    model, cache = load_causal_lm(checkpoint, dtype="float64"), DynamicCache()
    out = model.model(torch.tensor([tokens]), past_key_values=cache)
    # [tokens, layers, keys and values, width]
    both = torch.stack(
        [
            torch.stack([each[0].transpose(0, 1).flatten(1) for each in (layer.keys, layer.values)], dim=1)
            for layer in cache.layers
        ],
        dim=1,
    )
    states = {"hidden": out.last_hidden_state[0]}
    if json.loads((draft / "config.json").read_text())["outrider_draft"] == "eagle3":
        entered = model.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
        states["fused"] = load_fuse(draft).double()(torch.cat([entered[tap][0] for tap in (0, 1, 2)], -1))
    elif (draft / "exporter.safetensors").is_file():
        states["lsa"] = load_lsa(draft).double()(both.flatten(2))
        states["kv"] = both[:, len(cache.layers) - layers :]
    return states


def compare(states: Sequence[State], expected: dict[str, torch.Tensor], tolerance: float) -> dict[str, set[int]]:
    """Raises AssertionError where a number differs by more than a share of the largest; the positions by kind."""
    positions: dict[str, set[int]] = {}
    for state in states:
        rows = expected[state.kind][state.start : state.start + state.count].float()
        largest = float(rows.abs().max())
        torch.testing.assert_close(
            decode(state.payload, state.dtype, state.shape), rows, rtol=0.0, atol=tolerance * largest
        )
        positions.setdefault(state.kind, set()).update(range(state.start, state.start + state.count))
    return positions


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("kind", "mixer", "layers"),
    [("moa", "mixture", 0), ("moa", "attention", 1), ("moa", "mixture", 3), ("eagle", "", 0), ("eagle3", "", 0)],
)
async def test_numbers_are_those_of_transformers(
    family: str,
    kind: str,
    mixer: str,
    layers: int,
    checkpoint: Callable[[str], Path],
    reference: Callable[[str], Reference],
    tmp_path: Path,
) -> None:
    directory = checkpoint(family)
    if kind == "moa":
        draft = make_moa_draft(tmp_path / "draft", directory, mixer=mixer)
    else:
        draft = {"eagle": make_eagle_draft, "eagle3": make_eagle3_draft}[kind](tmp_path / "draft", directory)
    prompt = list(range(5, 45))
    answer = reference(family).answer(prompt, TOKENS)
    expected = truth(directory, draft, layers, [*prompt, *answer])
    async with running(options_for(directory, draft)) as server, connect(server.address) as connection:
        for dtype, tolerance in (("float16", 1e-3), ("int8", 1e-2)):
            session = await stateful_session(connection, StateRequest("draft", layers, dtype))
            wire = Listening(connection.generate())
            propose = knowing([*prompt, *answer], 0.8, 300)
            opening = session.open(prompt, Settings(TOKENS, idle="lockstep"))
            assert await play(session, wire, opening, propose) == answer
            positions = compare(wire.states, expected, tolerance)
            moa = {"lsa", "kv"} if layers else {"lsa"}
            kinds = {"eagle": {"hidden"}, "eagle3": {"fused"}, "moa": moa}[kind]
            assert set(positions) == kinds
            for arrived in positions.values():
                assert set(range(len(prompt))) <= arrived
                assert max(arrived) < len(prompt) + len(answer) - 1


async def test_eight_clients_of_two_drafts_get_each_their_own(
    target: Path, reference: Callable[[str], Reference], tmp_path: Path
) -> None:
    drafts = {
        "first": make_moa_draft(tmp_path / "first", target),
        "second": make_moa_draft(tmp_path / "second", target, (0, 1), seed=3),
        "bird": make_eagle_draft(tmp_path / "bird", target),
    }
    requests = [
        StateRequest("first", 0, "float16"),
        StateRequest("first", 3, "float16"),
        StateRequest("second", 1, "float16"),
        StateRequest("second", 0, "int8"),
        StateRequest("bird", 0, "float16"),
        StateRequest("first", 1, "int8"),
        StateRequest("bird", 0, "int8"),
        StateRequest("first", 3, "float16"),
    ]

    async def client(index: int, address: str) -> None:
        request, prompt = requests[index], [2 + (7 * index + position) % 290 for position in range(10 + 20 * index)]
        answer = reference("llama").answer(prompt, TOKENS)
        async with connect(address) as connection:
            session = await stateful_session(connection, request)
            wire = Listening(connection.generate())
            propose = [knowing([*prompt, *answer], 0.8, 300, index), guessing(300, index), nothing][index % 3]
            assert await play(session, wire, session.open(prompt, Settings(TOKENS)), propose) == answer
        tolerance = 1e-3 if request.dtype == "float16" else 1e-2
        expected = truth(target, drafts[request.draft], request.layers, [*prompt, *answer])
        assert compare(wire.states, expected, tolerance)

    async with running(options_for(target, *drafts.values())) as server:
        await asyncio.gather(*(client(index, server.address) for index in range(8)))
        counters = server.engine.counters
    assert counters.recomputed_tokens == 0
    assert set(counters.state_bytes) == {"lsa", "kv", "hidden"}
    assert counters.state_seconds > 0


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (StateRequest("absent"), "no draft state for the draft model 'absent'"),
        (StateRequest("small"), "no draft state for the draft model 'small'"),
        (StateRequest("deep", 2), "cannot run the target's last 2 layers, only as many of them as one of: 0, 1"),
        (
            StateRequest("deep", 0, "int2"),
            "unknown dtype of draft state 'int2'; this server knows int8, float16, int4",
        ),
    ],
)
async def test_a_request_that_cannot_be_served_is_refused(
    target: Path, draft: Path, tmp_path: Path, request_: StateRequest, sentence: str
) -> None:
    deep = make_moa_draft(tmp_path / "deep", target, (0, 1))
    async with running(options_for(target, draft, deep)) as server, connect(server.address) as connection:
        session = await stateful_session(connection, request_)
        with pytest.raises(PeerError, match=sentence) as refused:
            await play(session, connection.generate(), session.open([1, 2], Settings(5)), nothing)
        assert refused.value.code is FailureCode.INVALID
        assert len(server.engine.sessions) == 0
