"""Runs llama.cpp's server, and the shell around transformers' `generate`, as processes. Knows processes and their
arguments, not requests.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from client.errors import DemoError
from common.address import Address
from common.stated_costs import HALF_THE_CORES
from netem.experiments.others import generate_server
from netem.experiments.others.completions import until_healthy
from netem.links import process_guard
from netem.links.sockets import free_port

_HOST = "127.0.0.1"
_PORT = "{port}"  # in a command, the port that its server gets
_PATIENCE_S = 120.0
_LAST_WORDS = 300  # characters


@dataclass(frozen=True, slots=True)
class LlamaDraft:
    """A draft model as a GGUF file, and how many tokens it drafts for a pass at most."""

    file: Path
    most_tokens: int


def llama_command(program: Path, target: Path, draft: LlamaDraft | None) -> list[str]:
    """target: a GGUF file. Everything in float32, so that answers can be compared with those of other programs."""
    own = ("--threads", str(HALF_THE_CORES), "--parallel", "1", "--ctx-size", "2048", "--gpu-layers", "0")
    exact = ("--cache-type-k", "f32", "--cache-type-v", "f32", "--flash-attn", "off")
    command = [str(program), "--model", str(target), *own, *exact, "--host", _HOST, "--port", _PORT]
    if draft is not None:
        kept = ("--spec-draft-type-k", "f32", "--spec-draft-type-v", "f32")
        command += ["--spec-type", "draft-simple", "--spec-draft-model", str(draft.file), *kept]
        command += ["--spec-draft-n-max", str(draft.most_tokens)]
    return command


def generate_command(target: Path, draft: Path | None) -> list[str]:
    """target, draft: checkpoints. An assistant model drafts where `draft` is given."""
    models = [str(target)] if draft is None else [str(target), str(draft)]
    return [sys.executable, "-P", "-m", generate_server.__name__, f"{_HOST}:{_PORT}", *models]


@asynccontextmanager
async def running_server(command: Sequence[str]) -> AsyncIterator[Address]:
    """A server on a free port of this machine until the block ends; it dies with this process.

    Raises DemoError if it does not answer in time.
    """
    address = Address(_HOST, free_port())
    arguments = [word.replace(_PORT, str(address.port)) for word in command]
    with tempfile.TemporaryFile() as words:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", process_guard.__name__, "-", str(os.getpid()), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
        )
        try:
            ended = asyncio.create_task(process.wait())
            healthy = asyncio.create_task(until_healthy(address, _PATIENCE_S))
            await asyncio.wait((ended, healthy), return_when=asyncio.FIRST_COMPLETED)
            if ended.done() or not healthy.result():
                healthy.cancel()
                words.seek(0)
                said = words.read().decode(errors="replace").strip()[-_LAST_WORDS:]
                raise DemoError(f"{Path(command[0]).name} did not start: {said}")
            yield address
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
