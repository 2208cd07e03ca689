"""Asks for answers by llama.cpp's `/completion` over HTTP: one streamed event for each piece of the answer.

Knows that protocol, by OpenAI's client, and nothing of the server behind it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import openai

from client.errors import DemoError
from common.address import Address
from netem.experiments.others.heard import Heard

_HEALTH = "/health"
_HEALTH_RETRIES = 1  # it may be asked on a connection that is closing
_NO_RETRIES = 0  # a stream that broke off cannot be continued: a retry would be another answer


class Timings(openai.BaseModel):
    draft_n: int = 0
    draft_n_accepted: int = 0


class Event(openai.BaseModel):
    """A piece of an answer; in the last, `tokens_predicted` counts all tokens, the end token included. Where tokens are
    parts of one character, llama.cpp sends the last of them alone."""

    tokens: list[int] = []  # noqa: RUF012  (pydantic copies it)
    stop: bool = False
    stop_type: str = ""
    tokens_predicted: int = 0
    timings: Timings = Timings()


@dataclass(frozen=True, slots=True)
class CompletionServer:
    """A server, and a client that keeps its connection from answer to answer."""

    client: openai.AsyncOpenAI

    async def connect(self) -> None:
        """HTTP closes connections that nobody has used for some seconds: this opens another one, also in place of one
        whose closing this client has not heard of yet. Raises DemoError."""
        try:
            await self.client.with_options(max_retries=_HEALTH_RETRIES).get(_HEALTH, cast_to=object)
        except openai.OpenAIError as error:
            raise DemoError(f"{self.client.base_url} does not answer ({error})") from error

    async def ask(self, prompt: Sequence[int], new_tokens: int, heard: Heard) -> None:
        """Greedy, and without K/V of the prompt before. A client's error is recorded in its own words."""
        body = {
            "prompt": list(prompt),
            "n_predict": new_tokens,
            "temperature": 0,
            "stream": True,
            "cache_prompt": False,
        }
        try:
            await self._read(body, heard)
        except openai.OpenAIError as error:
            heard.error = f"{type(error).__name__}: {error}"
        heard.finish()

    async def _read(self, body: dict[str, Any], heard: Heard) -> None:
        stream = await self.client.post(
            "/completion", cast_to=Event, body=body, stream=True, stream_cls=openai.AsyncStream[Event]
        )
        # Read to its end, or the connection could not be used again.
        async for event in stream:
            heard.hear(event.tokens)
            if event.stop:
                heard.end = event.stop_type
                heard.passes = event.tokens_predicted - event.timings.draft_n_accepted
                heard.drafted = event.timings.draft_n
        if not heard.end:
            heard.error = "the stream ended in mid-answer"


def client_of(address: Address, read_timeout_s: float) -> openai.AsyncOpenAI:
    """read_timeout_s: how long it waits for the next piece of an answer."""
    return openai.AsyncOpenAI(
        base_url=f"http://{address}",
        api_key="none",
        max_retries=_NO_RETRIES,
        timeout=openai.Timeout(read_timeout_s),
        http_client=openai.DefaultAsyncHttpxClient(trust_env=False),  # a proxy does not lead to this machine
    )


async def until_healthy(address: Address, patience_s: float) -> bool:
    """Whether the server says that it can answer, within so many seconds."""
    async with client_of(address, patience_s) as client:
        try:
            async with asyncio.timeout(patience_s):
                while True:
                    try:
                        await client.get(_HEALTH, cast_to=object)
                        return True
                    except openai.OpenAIError:
                        await asyncio.sleep(0.05)
        except TimeoutError:
            return False
