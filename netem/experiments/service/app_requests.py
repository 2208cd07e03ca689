"""The requests of apps, half of them sampled with a seed, with the texts that transformers' own `generate` answers.

Knows prompts, the target and its tokenizer, not endpoints.
"""

from collections.abc import Sequence
from pathlib import Path

from client.assembly import Client
from client.demo.asking import prompt_tokens
from client.text import answer_text
from netem.experiments.experiment import Advance
from netem.experiments.references import make_reference_questions
from netem.experiments.service.apps import AppRequest

MODEL = "outrider"


def make_app_requests(
    target: Path, texts: Sequence[str], client: Client, max_new_tokens: int, seed: int, advance: Advance, share: float
) -> list[AppRequest]:
    """Two requests for each text, greedy and sampled. share: the share of the whole run that this takes."""
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
