"""Apps: several at a time ask an endpoint by OpenAI's own client, read or go away in mid-answer, and judge what came.

Knows HTTP's other end only; not what is done to the link meanwhile.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import openai

IDENTICAL, DIFFERENT, LEFT, FAILED = "identical", "different", "left", "failed"

_LEAVING = 0.15
"""The share of the answers that nobody reads to the end."""

_WHOLE = 0.25  # of the others, those that are asked for whole
_RETRIES = 40  # of a refused request, by the client itself


@dataclass(frozen=True, slots=True)
class Question:
    """A body, and the text that the target alone answers."""

    body: dict[str, Any]
    text: str


@dataclass(slots=True)
class Apps:
    address: str
    questions: Sequence[Question]
    verdicts: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)  # of what was different or failed
    first_seconds: list[float] = field(default_factory=list)  # to the first text of an answer that was streamed

    async def ask_until(self, deadline: float, seed: int) -> None:
        """One app, on time.monotonic."""
        dice = random.Random(seed)
        async with openai.AsyncOpenAI(
            base_url=f"http://{self.address}/v1", api_key="none", max_retries=_RETRIES, timeout=300.0
        ) as client:
            while time.monotonic() < deadline:
                await self._ask(client, dice.choice(self.questions), dice)

    async def _ask(self, client: openai.AsyncOpenAI, question: Question, dice: random.Random) -> None:
        leaves_after = dice.randrange(1, 8) if dice.random() < _LEAVING else None
        is_whole = leaves_after is None and dice.random() < _WHOLE
        try:
            text = await self._whole(client, question) if is_whole else await self._read(client, question, leaves_after)
        except openai.OpenAIError as error:
            self._judged(FAILED, f"{type(error).__name__}: {error}")
            return
        if leaves_after is not None and question.text.startswith(text):
            self._judged(LEFT)
        elif text == question.text:
            self._judged(IDENTICAL)
        else:
            self._judged(DIFFERENT, f"{text!r} instead of {question.text!r}")

    async def _read(self, client: openai.AsyncOpenAI, question: Question, leaves_after: int | None) -> str:
        began, text, chunks = time.monotonic(), "", 0
        async with await client.chat.completions.create(**question.body, stream=True) as stream:
            async for chunk in stream:
                piece = chunk.choices[0].delta.content
                if piece and not text:
                    self.first_seconds.append(time.monotonic() - began)
                text += piece or ""
                chunks += bool(piece)
                if chunks == leaves_after:
                    break
        return text

    @staticmethod
    async def _whole(client: openai.AsyncOpenAI, question: Question) -> str:
        answer = await client.chat.completions.create(**question.body)
        return str(answer.choices[0].message.content)

    def _judged(self, verdict: str, trouble: str = "") -> None:
        self.verdicts[verdict] += 1
        if trouble:
            self.troubles.append(trouble)


async def ask_together(apps: Apps, count: int, deadline: float, seed: int) -> None:
    """`count` apps at once, until `deadline`."""
    await asyncio.gather(*(apps.ask_until(deadline, seed * 1000 + number) for number in range(count)))
