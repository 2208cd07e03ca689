"""A real `outrider serve` as a process of its own, and requests to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import DEVNULL, PIPE

import openai

from tests.daemon import ready
from tests.programs import Program

MODEL = "outrider"
QUESTION = [{"role": "user", "content": "Write a Python function that adds two numbers."}]


@contextmanager
def outrider_serve(*arguments: str) -> Iterator[str]:
    """Yields its HOST:PORT; killed at the end."""
    where = ("--listen", "127.0.0.1:0", "--threads", "1")
    with ready(Program("outrider", "serve", *where, *arguments, stdout=DEVNULL, stderr=PIPE)) as address:
        yield address


def client_of(address: str, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://{address}/v1", api_key=key, max_retries=0)


def pieces(stream) -> list[str]:
    return [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
