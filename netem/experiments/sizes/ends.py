"""Runs both ends for one target, each in a process of its own, or the client's side alone.

May know how checkpoints, servers, links and clients are started. It may not know rows or formulas.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from client.demo.children import running
from common.bundle import TAIL_FOLDER, TOKENIZER_FOLDER
from common.cache import CACHE_VARIABLE
from common.draft_models.tail import write_tail
from common.drafters.load import DrafterConfig
from common.models.fingerprint import fingerprint
from common.models.placement import DTYPES
from common.models.source import CONFIG, WEIGHTS
from common.protocol.errors import MisuseError
from common.protocol.messages import StateRequest
from common.weight_only.files import quantise_directory
from common.weight_only.modes import AS_IS
from netem.experiments.process_pool import in_process
from netem.experiments.references import verdict
from netem.experiments.sizes.checkpoints import end_tokens, write_checkpoint
from netem.experiments.sizes.client import (
    STATE,
    ClientAnswer,
    ClientReading,
    ClientSetup,
    answer,
    draft_alone,
    fetch,
    pass_seconds,
)
from netem.experiments.sizes.draft_models import SizedDraft
from netem.experiments.sizes.memory import Resident, device_used, resident
from netem.experiments.sizes.reference import ReferenceRun, answer_by_generate
from netem.experiments.sizes.rows import CONTEXT, STORED
from netem.experiments.sizes.targets import SizedTarget

LINK = "4g"
PROMPT = "Name three rivers of Europe, and say why each of them matters."
MAX_NEW_TOKENS = 16
DIFFERENT = "different"
_ANY_PORT = "127.0.0.1:0"


@dataclass(frozen=True, slots=True)
class ClientRun:
    """answer: 'identical', 'near-tie' or 'different' from generate's; empty without a server."""

    reading: ClientReading
    bundle_bytes: int
    answer: str = ""


@dataclass(frozen=True)
class Ends:
    """What was measured of one target in one dtype. server: None where it did not run; pass_s: processor seconds of its
    pass over one token. clients: by the names of drafts and their weights."""

    server: Resident | None = None
    pass_s: float | None = None
    clients: Mapping[tuple[str, str], ClientRun] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a target and its draft models lie. target: without most of its layers where only the client's side runs."""

    path: Path
    target: SizedTarget
    drafts: Sequence[SizedDraft]

    @property
    def checkpoint(self) -> Path:
        return self.path / "target"

    def of_draft(self, draft: SizedDraft) -> Path:
        return self.path / draft.name


@contextmanager
def made(
    target: SizedTarget,
    drafts: Sequence[SizedDraft],
    seed: int,
    *,
    whole: bool,
    device: str = "cpu",
    kept: Path | None = None,
) -> Iterator[Folder]:
    """The target with random weights, which `device` draws, or its last layers alone, and its draft models, until the
    block ends; in the new folder `kept` for good. Raises MisuseError where that exists."""
    dtype, layers = DTYPES[STORED], max(draft.layers for draft in drafts)
    with TemporaryDirectory(prefix="outrider-lab-") if kept is None else nullcontext(kept) as path:
        folder = Folder(Path(path), target, drafts)
        if kept is not None and kept.exists():
            raise MisuseError(f"{kept} exists: name a folder with --models in which the checkpoint is to be made")
        write_checkpoint(folder.checkpoint, target, dtype, seed, None if whole else layers, device)
        known = fingerprint(folder.checkpoint)
        torch.manual_seed(seed)
        for draft in drafts:
            if draft.write is not None:
                draft.write(folder.of_draft(draft), target.dimensions, known, dtype)
        yield folder


async def both_ends(
    folder: Folder, dtype: str, backend: str, modes: Sequence[str] = (AS_IS,), device: str = "cpu"
) -> Ends:
    """The server with all drafts on `device`, and one client after another on the CPU, in each of the weights modes.
    backend: of the emulated link."""
    ends, on_gpu = end_tokens(folder.target), device != "cpu"
    reference = await in_process(answer_by_generate, folder.checkpoint, dtype, PROMPT, ends, MAX_NEW_TOKENS, device)
    before = await in_process(device_used, device) if on_gpu else 0
    models = [argument for draft in folder.drafts if draft.write for argument in ("--draft", folder.of_draft(draft))]
    options = ("--dtype", dtype, "--threads", "1", "--cache-tokens", str(CONTEXT), "--idle", "patient")
    place = ("--device", device, "--listen", _ANY_PORT)
    async with AsyncExitStack() as stack:
        stack.enter_context(_server_cache(folder.path / "cache"))
        started = running("outriderd", "serve", "--target", str(folder.checkpoint), *map(str, models), *options, *place)
        server = await stack.enter_async_context(started)
        near = await server.ready()
        proxied = running("outrider-lab", "proxy", LINK, "--backend", backend, "--to", near)
        far = await (await stack.enter_async_context(proxied)).ready()
        clients = {}
        for draft, weights in variants(folder.drafts, modes):
            # Each with a cache of its own, or a client would quantise the bundle that it has as it is.
            setup = ClientSetup(near, draft.name, draft.layers, weights, dtype, folder.path / f"client-{weights}")
            # Not over the link, whose rate says how long a bundle takes.
            fetched = await in_process(fetch, setup)
            given = await in_process(answer, replace(setup, server=far), PROMPT, MAX_NEW_TOKENS)
            clients[draft.name, weights] = ClientRun(given.reading, fetched.bundle_bytes, _judge(reference, given))
        pass_s = await in_process(pass_seconds, setup, PROMPT, server.pid, on_gpu)
        memory = resident(server.pid)
        if on_gpu:
            # What torch has once taken of a GPU it keeps, so that this is the most as well.
            held = await in_process(device_used, device) - before
            memory = Resident(held, held)
        return Ends(memory, pass_s, clients)


async def client_alone(folder: Folder, dtype: str, modes: Sequence[str] = (AS_IS,)) -> Ends:
    """Every draft that has weights, from a bundle's directory and without a server, in each of the weights modes."""
    target = folder.target.dimensions
    clients = {}
    for draft, weights in variants(folder.drafts, modes):
        if draft.write is None:
            continue
        bundle = _bundle(folder, draft, weights)
        size = _bytes(bundle)  # before the client writes what its kernels read beside it
        request = StateRequest(draft.name, draft.layers, STATE)
        reading = await in_process(
            draft_alone, draft.kind, DrafterConfig(bundle, "cpu", dtype, CONTEXT, target.vocabulary, request)
        )
        clients[draft.name, weights] = ClientRun(reading, size)
    return Ends(clients=clients)


def variants(drafts: Sequence[SizedDraft], modes: Sequence[str]) -> list[tuple[SizedDraft, str]]:
    """Each draft in each of the weights modes; one without weights has no modes."""
    return [(draft, mode) for draft in drafts for mode in (modes if draft.write is not None else (AS_IS,))]


def _bundle(folder: Folder, draft: SizedDraft, weights: str) -> Path:
    """What a client fetches of a draft, as a directory."""
    bundle = folder.path / f"bundle-{draft.name}-{weights}"
    if weights != AS_IS:
        quantise_directory(_bundle(folder, draft, AS_IS), weights, bundle)
    elif not bundle.is_dir():
        write_tail(folder.checkpoint, draft.layers, bundle / TAIL_FOLDER)
        for name in (CONFIG, WEIGHTS):
            (bundle / name).hardlink_to(folder.of_draft(draft) / name)
        (bundle / TOKENIZER_FOLDER).mkdir()
        for file in folder.checkpoint.glob("*token*"):
            (bundle / TOKENIZER_FOLDER / file.name).hardlink_to(file)
    return bundle


def _bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def _judge(reference: ReferenceRun, given: ClientAnswer) -> str:
    """Also 'different' where the chat template made another prompt."""
    if given.prompt != reference.reference.prompt:
        return DIFFERENT
    return verdict(reference.reference, given.tokens, reference.near_tie)


@contextmanager
def _server_cache(path: Path) -> Iterator[None]:
    """Where child processes keep the last layers of targets inside the block."""
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ[CACHE_VARIABLE]
        else:
            os.environ[CACHE_VARIABLE] = before
