"""What runs in the process of a client: fetching a bundle, an answer with its drafter, a drafter without a server.

It may not know how targets and draft models were made, or what becomes of the numbers.
"""

import asyncio
import math
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import torch

from client.answering import AnswerOptions
from client.assembly import Client, client_for
from client.demo.asking import ask_tokens, prompt_tokens
from client.drafting.depth import level_seconds
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import CLOUD, STREAM
from client.link.stream import Access
from common.address import parse_destination
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.drafters.load import DrafterConfig, load_draft_model
from common.protocol.errors import OutriderError
from netem.experiments.quiet import no_bar
from netem.experiments.sizes.memory import Resident, resident

STATE = "int8"
"""In which draft state travels."""

TREE = Expansion(least_probability=1e-12)
"""The default tree, but a draft with random weights may propose all that it finds unlikely."""

_LENGTHS = (2, 18)
"""Of the two answers whose difference is the time of their passes."""


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """server: HOST:PORT. draft: as the server names it, with `layers` of the target below. weights: a mode of
    `common.weight_only.modes`. cache: for bundles."""

    server: str
    draft: str
    layers: int
    weights: str
    dtype: str
    cache: Path


@dataclass(frozen=True, slots=True)
class Fetched:
    bundle_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ClientReading:
    """level_s: processor seconds of a drafted level on one core. ready_s: processor seconds from the first import to a
    drafter that can draft."""

    memory: Resident
    level_s: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """prompt, tokens: token ids; seconds: from sending the prompt to the end."""

    reading: ClientReading
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    seconds: float


def fetch(setup: ClientSetup) -> Fetched:
    """Fetches the bundle and makes its tokenizer, so that later starts find both."""

    async def main() -> Fetched:
        began = time.monotonic()
        async with _client(setup) as client:
            return Fetched(sum(file.size for file in client.manifest.files), time.monotonic() - began)

    return asyncio.run(main())


def answer(setup: ClientSetup, prompt: str, max_new_tokens: int) -> ClientAnswer:
    """One streamed answer through the chat template."""

    async def main() -> ClientAnswer:
        async with _client(setup) as client:
            drafter = client.load_drafter()
            ready_s = time.process_time()
            level_s = _level_seconds(drafter, client.description.vocab_size)
            tokens = prompt_tokens(client, prompt)
            given = await ask_tokens(client, tokens, options, drafter)
            reading = ClientReading(resident(), level_s, ready_s)
            return ClientAnswer(reading, tuple(tokens), given.tokens, given.stats.seconds)

    options = AnswerOptions(replace(STREAM, tree=TREE), max_new_tokens)
    return asyncio.run(main())


def draft_alone(kind: str, config: DrafterConfig) -> ClientReading:
    """Drafting from a bundle's directory without a server."""
    torch.set_num_threads(1)
    drafter = load_draft_model(kind, config)()
    ready_s = time.process_time()
    level_s = _level_seconds(drafter, config.vocab_size)
    return ClientReading(resident(), level_s, ready_s)


def _level_seconds(drafter: Drafter, vocabulary: int) -> float:
    """0 for a drafter that computes nothing below text that does not repeat itself."""
    drafter.expansion = TREE
    seconds = level_seconds(drafter, vocabulary, time.thread_time)
    return seconds if math.isfinite(seconds) else 0.0


def pass_seconds(setup: ClientSetup, prompt: str, server: int, on_gpu: bool) -> float:
    """Seconds of a pass over one token: processor time of the process `server`, which has nothing else to do; of one
    `on_gpu`, which the processor waits for, the time between tokens."""

    async def main() -> float:
        async with _client(setup) as client:
            tokens = prompt_tokens(client, prompt)
            spent, passes = [], []
            # The prompt's own pass is in both.
            for length in _LENGTHS:
                before = time.monotonic() if on_gpu else _processor_seconds(server)
                answer = await ask_tokens(client, tokens, AnswerOptions(CLOUD, length), None)
                passes.append(answer.stats.passes)
                spent.append((time.monotonic() if on_gpu else _processor_seconds(server)) - before)
            if passes[1] <= passes[0]:
                raise OutriderError("the target ends its answer at once, so that its passes cannot be timed")
            return (spent[1] - spent[0]) / (passes[1] - passes[0])

    return asyncio.run(main())


def _processor_seconds(process: int) -> float:
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


def _client(setup: ClientSetup) -> AbstractAsyncContextManager[Client]:
    choice = DraftChoice(
        setup.draft, dtype=setup.dtype, threads=1, layers=setup.layers, state=STATE, weights=setup.weights
    )
    return client_for(Access(parse_destination(setup.server)), choice, setup.cache, no_bar)
