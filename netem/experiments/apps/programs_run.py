"""Runs what an app does in the environment where it is installed. Knows processes, not what is right."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).with_name("programs")

_HERE = "127.0.0.1,localhost"
"""Where a proxy of the environment does not lead."""

APPS = (
    "openai_client",
    "langchain_chat",
    "litellm_completion",
    "ollama_client",
    "llm_command",
    "aider_edit",
    "opencode_edit",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that an app did. `kind`: TEXT, DATA or EDITS. `got` is empty where it raised `error`, with HTTP's
    `status` if it tells."""

    app: str
    kind: str
    name: str
    seconds: float
    got: str = ""
    error: str = ""
    status: int | None = None

    @property
    def is_refused(self) -> bool:
        """Whether it was told that the server is out of reach."""
        return self.status == 503 or " 503" in self.error

    @property
    def was_ended(self) -> bool:
        """Whether it took too long, by the program that runs it."""
        return self.error.startswith(TimeoutError.__name__)

    @property
    def word(self) -> str:
        return "answered" if self.got else "503" if self.is_refused else "failed"


async def run_app(app: str, url: str, environments: Sequence[Path]) -> list[Outcome] | None:
    """What it did, in the first of the environments that has it, or in this one; None if none has it."""
    folders = [folder for each in environments for folder in (each / "bin", each)]
    path = os.pathsep.join([*map(str, folders), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for python in [*(each / "python" for each in folders if (each / "python").exists()), Path(sys.executable)]:
        environment = {**os.environ, "PATH": path, "NO_PROXY": _HERE, "no_proxy": _HERE}
        lines = await _run([str(python), str(PROGRAMS / "runner.py"), app, url], environment)
        if not any(line["kind"] == "missing" for line in lines):
            return [Outcome(app, **line) for line in lines]
    return None


async def _run(command: list[str], environment: dict[str, str]) -> list[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = [json.loads(line) for line in said.decode().splitlines() if line.startswith("{")]
    if process.returncode:
        lines.append({"kind": "DATA", "name": "all", "seconds": 0.0, "error": complaints.decode()[-600:]})
    return lines
