"""The shipped models on private text: what the draft alone answers still uses the text that the server never saw."""

import json
import re
from pathlib import Path

import pytest

from client.assembly import client_for
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.stream import Access
from client.private.spans import as_private
from client.terminal.progress import download_bar
from client.text import chat_prompt, decode
from common.address import parse_address
from common.protocol.messages import Settings
from tests.daemon import outriderd

MODELS = Path(__file__).parents[3] / "models" / "demo"
_QUESTION_FIRST = re.compile(r"(?!Text)([^\n]{5,110}\n)(.{120,})", re.DOTALL)


def reading_prompts(count: int) -> list[tuple[str, str]]:
    """Questions, and the texts that they are about."""
    records = map(json.loads, (MODELS / "prompts.jsonl").read_text().splitlines())
    found = [_QUESTION_FIRST.fullmatch(each["prompt"]) for each in records if each["category"] == "reading"]
    return [(match[1], match[2]) for match in found if match][:count]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@pytest.mark.parametrize("layers", [1, 3])
async def test_an_answer_has_far_more_words_of_its_own_private_text_than_of_another(layers, tmp_path):
    prompts = reading_prompts(14)
    own, others = 0, 0
    with outriderd("--target", "demo") as (_, address):
        access, choice = Access(parse_address(address)), DraftChoice("moa", layers=layers)
        async with client_for(access, choice, tmp_path, download_bar) as client:
            for (question, text), (_, other) in zip(prompts, [*prompts[3:], *prompts[:3]], strict=True):
                async with client.converse(STREAM, client.load_drafter()) as conversation:
                    prompt = chat_prompt(client.tokenizer, [{"role": "user", "content": question + as_private(text)}])
                    answer = await client.privacy_router(conversation).answer(prompt, Settings(60), lambda *seen: None)
                assert answer.stats.state_bytes["lsa"] > 0
                said = words(decode(client.tokenizer, answer.provisional)) - words(question)
                own += len(said & words(text) - words(other))
                others += len(said & words(other) - words(text))
    assert len(prompts) == 14
    assert own > 2 * others, (own, others)
