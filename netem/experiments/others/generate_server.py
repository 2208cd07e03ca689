"""Transformers' `generate` behind llama.cpp's `/completion`: `python -m netem.experiments.others.generate_server
HOST:PORT TARGET [DRAFT]`.

A thin shell: `generate` computes in a thread and streams token ids, with an assistant model where a draft is named, and
with transformers' own defaults for it. Knows no link and no client.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from transformers import GenerationConfig, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer

from client.endpoint.sse import EventStream, event
from common.address import parse_address
from common.models.checkpoint import load_causal_lm
from common.stated_costs import HALF_THE_CORES

Emit = Callable[[list[int]], object]
"""Is called with the next tokens of an answer."""


class TokenStreamer(BaseStreamer):
    """Hands on token ids as `generate` makes them; the first that it gets is the prompt."""

    def __init__(self, emit: Emit):
        self._emit = emit
        self._prompt_is_read = False

    def put(self, value: torch.Tensor) -> None:
        if self._prompt_is_read:
            self._emit(value.flatten().tolist())
        self._prompt_is_read = True

    def end(self) -> None:
        """The answer also ends where `generate` fails, so that its return says it."""


class Generator:
    """One answer at a time."""

    def __init__(self, target: Path, draft: Path | None):
        self._target: Any = load_causal_lm(target)
        # Greedy as the others are: without the penalties that some checkpoints choose.
        chosen, make = self._target.generation_config, cast(Any, GenerationConfig)
        self._target.generation_config = make(eos_token_id=chosen.eos_token_id, pad_token_id=chosen.pad_token_id)
        self._draft: Any = None if draft is None else load_causal_lm(draft)
        self._forwards = {"target": 0, "draft": 0}
        self._turn = asyncio.Lock()
        self._count("target", self._target)
        if self._draft is not None:
            self._count("draft", self._draft)

    def _count(self, name: str, model: Any) -> None:
        def count(*_: Any) -> None:
            self._forwards[name] += 1

        model.register_forward_pre_hook(count)

    async def events(self, prompt: Sequence[int], new_tokens: int, left: asyncio.Event) -> AsyncIterator[bytes]:
        """Server-sent events until the answer ends. left: set when the client has gone."""
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[list[int] | None]()
        async with self._turn:
            self._forwards |= dict.fromkeys(self._forwards, 0)
            streamer = TokenStreamer(lambda piece: loop.call_soon_threadsafe(pieces.put_nowait, piece))
            computing = asyncio.create_task(asyncio.to_thread(self._generate, prompt, new_tokens, streamer, left))
            computing.add_done_callback(lambda _: pieces.put_nowait(None))
            try:
                predicted = 0
                while (piece := await pieces.get()) is not None:
                    predicted += len(piece)
                    yield event({"tokens": piece, "stop": False})
            finally:
                left.set()
                await computing
            accepted = predicted - self._forwards["target"]
            counts = {"draft_n": self._forwards["draft"], "draft_n_accepted": accepted}
            yield event({"stop": True, "stop_type": "end", "tokens_predicted": predicted, "timings": counts})

    def _generate(self, prompt: Sequence[int], new_tokens: int, streamer: TokenStreamer, left: asyncio.Event) -> None:
        tokens = torch.tensor([list(prompt)])
        self._target.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=new_tokens,
            do_sample=False,
            assistant_model=self._draft,
            streamer=streamer,
            stopping_criteria=StoppingCriteriaList([lambda *_: torch.tensor([left.is_set()])]),
        )


def make_app(generator: Generator) -> Starlette:
    async def complete(request: Request) -> Response:
        body = await request.json()
        left = asyncio.Event()
        return EventStream(generator.events(body["prompt"], body["n_predict"], left), left.set)

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[Route("/completion", complete, methods=["POST"]), Route("/health", health, methods=["GET"])]
    )


def main(listen: str, target: str, draft: str = "") -> None:
    address = parse_address(listen)
    torch.set_num_threads(HALF_THE_CORES)
    app = make_app(Generator(Path(target), Path(draft) if draft else None))
    uvicorn.run(app, host=address.host, port=address.port, log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
