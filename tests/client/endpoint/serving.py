"""A real `outrider serve` as a process of its own, and what asks it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import openai

from tests.client.daemon import READY, command

MODEL = "outrider"
QUESTION = [{"role": "user", "content": "Write a Python function that adds two numbers."}]


@contextmanager
def outrider_serve(*arguments: str) -> Iterator[str]:
    """Its HOST:PORT; killed at the end."""
    process = subprocess.Popen(
        [command("outrider"), "serve", "--listen", "127.0.0.1:0", "--threads", "1", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = []
        for line in iter(process.stderr.readline, ""):
            said.append(line)
            if line.startswith(READY):
                break
        else:
            raise AssertionError(f"outrider serve did not start: {said}")
        yield line.removeprefix(READY).strip()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def client_of(address: str, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://{address}/v1", api_key=key, max_retries=0)


def pieces(stream) -> list[str]:
    return [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
