"""The requests of apps, half of them sampled with a seed, with the texts that transformers' own `generate` answers.

Knows prompts, the target and its tokenizer, not endpoints.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from client.assembly import Client, client_for
from client.demo.asking import prompt_tokens
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from client.text import answer_text
from common.address import Address
from common.stated_costs import HALF_THE_CORES
from netem.experiments.experiment import Advance
from netem.experiments.quiet import no_bar
from netem.experiments.references import make_reference_questions
from netem.experiments.service.apps import AppRequest

MODEL = "outrider"


async def make_app_requests(
    target: Path,
    address: Address,
    cache: Path,
    texts: Sequence[str],
    max_new_tokens: int,
    seed: int,
    advance: Advance,
    share: float,
) -> list[AppRequest]:
    """Two requests for each text, greedy and sampled, with what the target answers. The server at `address`
    says how prompts are written. share: the share of the whole run that this takes."""
    async with client_for(Access(address), DraftChoice(threads=HALF_THE_CORES), cache, no_bar) as client:
        return await asyncio.to_thread(_make, target, texts, client, max_new_tokens, seed, advance, share)


def _make(
    target: Path, texts: Sequence[str], client: Client, max_new_tokens: int, seed: int, advance: Advance, share: float
) -> list[AppRequest]:
    prompts = [prompt_tokens(client, text) for text in texts]
    end_tokens = client.description.end_tokens
    questions = make_reference_questions(target, prompts, end_tokens, max_new_tokens, seed, advance, share)
    requests = []
    for index, question in enumerate(questions):
        sampling = question.sampling
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": texts[index // 2]}],
            "max_tokens": max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": sampling.seed,
            "extra_body": {
                "top_k": sampling.top_k,
                "min_p": sampling.min_p,
                "repetition_penalty": sampling.repetition_penalty,
            },
        }
        requests.append(AppRequest(body, answer_text(client.tokenizer, end_tokens, question.reference.answer)))
    return requests
