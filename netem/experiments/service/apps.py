"""Apps that send requests to an endpoint by OpenAI's own client, and judge the answers. Some leave in mid-answer.

Knows the endpoint by HTTP alone, and nothing of the faults of its link.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import openai

from netem.experiments.service.background import in_background

IDENTICAL, DIFFERENT, LEFT, FAILED = "identical", "different", "left", "failed"

_LEAVING_SHARE = 0.15
"""The share of the answers that their app does not read to the end."""

_UNSTREAMED_SHARE = 0.25
"""The share of the others that are requested without streaming."""

PATIENCE_S = 60.0
"""A request that is not answered so long after the last one was sent counts as failed."""

_RETRIES = 40  # of a refused request, by OpenAI's client
_REPEATS = "x-stainless-retry-count"
"""The header in which that client says how often it has sent a request before."""


@dataclass(frozen=True, slots=True)
class AppRequest:
    """body: of a request for a chat completion. text: the reference answer."""

    body: dict[str, Any]
    text: str


@dataclass(slots=True)
class Apps:
    """Apps of one endpoint at `address`, HOST:PORT, and the verdicts on their answers.

    troubles: descriptions of answers that differed or failed. first_seconds: to the first text of streamed answers.
    repeated: requests that OpenAI's client sent again, because they were refused or lost before an answer began.
    asks: whether apps still send requests.
    """

    address: str
    requests: Sequence[AppRequest]
    verdicts: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    first_seconds: list[float] = field(default_factory=list)
    repeated: int = 0
    asks: bool = True

    @property
    def repeats(self) -> str:
        """For a remark: a failure is what is left after repeating."""
        return (
            f"OpenAI's client sends a request that is refused or lost before its answer begins up to {_RETRIES} times "
            f"again, which it did {self.repeated} times."
        )

    async def run_app(self, seed: int) -> None:
        """One app, which sends requests as long as apps ask."""
        dice = random.Random(seed)
        async with openai.AsyncOpenAI(
            base_url=f"http://{self.address}/v1",
            api_key="none",
            max_retries=_RETRIES,
            timeout=300.0,
            http_client=openai.DefaultAsyncHttpxClient(
                trust_env=False,  # a proxy does not lead to this machine
                event_hooks={"request": [self._sends]},
            ),
        ) as client:
            while self.asks:
                await self._ask(client, dice.choice(self.requests), dice)

    async def _sends(self, request: Any) -> None:
        self.repeated += int(request.headers[_REPEATS]) > 0

    async def _ask(self, client: openai.AsyncOpenAI, request: AppRequest, dice: random.Random) -> None:
        leaves_after = dice.randrange(1, 8) if dice.random() < _LEAVING_SHARE else None
        is_whole = leaves_after is None and dice.random() < _UNSTREAMED_SHARE
        has_left = False
        try:
            if is_whole:
                text = await self._whole(client, request)
            else:
                text, has_left = await self._read(client, request, leaves_after)
        except Exception as error:  # whatever it is, the app got no answer
            self.judged(FAILED, f"{type(error).__name__}: {error}")
            return
        if has_left and request.text.startswith(text):
            self.judged(LEFT)
        elif text == request.text:
            self.judged(IDENTICAL)
        else:
            self.judged(DIFFERENT, f"{text!r} instead of {request.text!r}")

    async def _read(
        self, client: openai.AsyncOpenAI, request: AppRequest, leaves_after: int | None
    ) -> tuple[str, bool]:
        """What it read, and whether it left: an answer that ends before that is judged as a whole one."""
        began_s, text, chunks = time.monotonic(), "", 0
        async with await client.chat.completions.create(**request.body, stream=True) as stream:
            async for chunk in stream:
                piece = chunk.choices[0].delta.content
                if piece and not text:
                    self.first_seconds.append(time.monotonic() - began_s)
                text += piece or ""
                chunks += bool(piece)
                if chunks == leaves_after:
                    return text, True
        return text, False

    @staticmethod
    async def _whole(client: openai.AsyncOpenAI, request: AppRequest) -> str:
        answer = await client.chat.completions.create(**request.body)
        return str(answer.choices[0].message.content)

    def judged(self, verdict: str, trouble: str = "") -> None:
        self.verdicts[verdict] += 1
        if trouble:
            self.troubles.append(trouble)


@asynccontextmanager
async def asking(apps: Apps, count: int, seed: int) -> AsyncIterator[None]:
    """`count` apps at once, which send requests until the block ends. Requests under way then have PATIENCE_S."""
    async with in_background(*(apps.run_app(seed * 1000 + number) for number in range(count))) as running:
        yield
        apps.asks = False
        _, hanging = await asyncio.wait(running, timeout=PATIENCE_S)
        for _ in hanging:
            apps.judged(FAILED, f"a request was not answered within {PATIENCE_S:g} s")
