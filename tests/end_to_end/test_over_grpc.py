"""From a served draft's directory to an answer over gRPC: bundle fetched, drafter loaded, draft state sent."""

from pathlib import Path

import pytest

from client.assembly import client_for
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import parse_address
from common.draft_models.state_codec import StateCodec
from common.protocol.messages import Settings
from tests.drafts import make_block_draft, make_eagle3_draft, make_eagle_draft, make_moa_draft
from tests.families import make_checkpoint
from tests.server.harness import options_for, running
from tests.server.reference import Reference

PROMPT = list(range(40, 100))


@pytest.mark.parametrize(
    ("draft", "layers", "state", "kinds"),
    [
        ("deep", 0, "int8", {"lsa"}),
        ("deep", 3, "float16", {"lsa", "kv"}),
        ("bird", 0, "int8", {"hidden"}),
        ("third", 0, "int8", {"fused"}),
        ("blocks+lookup", 0, "int8", {"fused"}),
        ("narrow", 3, None, {"lsa", "kv"}),
        ("bird+wing+lookup", 0, "int8", {"hidden"}),
    ],
)
async def test_a_served_draft_drafts_on_a_client(
    draft: str, layers: int, state: str | None, kinds: set[str], tmp_path: Path
) -> None:
    target = make_checkpoint(tmp_path / "target", "llama")
    drafts = (
        make_moa_draft(tmp_path / "deep", target),
        make_eagle_draft(tmp_path / "bird", target),
        make_eagle_draft(tmp_path / "wing", target),
        make_eagle3_draft(tmp_path / "third", target, kept=2),
        make_block_draft(tmp_path / "blocks", target),
        make_moa_draft(tmp_path / "narrow", target, codec=StateCodec(5, "int3")),
    )
    truth = tuple(Reference(target).answer(PROMPT, 24))
    choice = DraftChoice(draft, dtype="float64", layers=layers, state=state)
    async with running(options_for(target, *drafts)) as server:
        access = Access(parse_address(server.address))
        async with (
            client_for(access, choice, tmp_path / "cache", download_bar) as client,
            client.converse(STREAM, client.load_drafter()) as conversation,
        ):
            settings = Settings(24, idle="patient")
            answer = await conversation.answer(PROMPT, settings, lambda committed, provisional: None)
        counters = server.engine.counters
    assert not answer.note
    assert answer.tokens == truth
    assert answer.stats.provisional_tokens > 0
    assert set(answer.stats.state_bytes) == set(counters.state_bytes) == kinds
    for kind, size in answer.stats.state_bytes.items():
        # The bytes received are those sent, framing included, except for frames still under way at the end.
        assert size > 0.5 * counters.state_bytes[kind]
