"""`from-wheel`: how long a new user takes from this project's wheel to an agent that has edited a file through
`outrider serve`. Real processes and time.

Agents run where they are installed (--apps), which is not counted; nor is making the target that they talk to.
"""

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from client.demo.children import running
from client.demo.family import find_family
from common.protocol.errors import MisuseError, OutriderError
from netem.experiments.apps.measure import EDITED_FILE
from netem.experiments.apps.programs_run import Outcome, run_app
from netem.experiments.apps.stand_in import learnt_by_heart
from netem.experiments.experiment import Advance, Report, Request

AGENTS = ("aider_edit", "opencode_edit")
_PROJECT = Path(__file__).parents[3]
_LAST_WORDS = 400  # characters


@dataclass
class Stopwatch:
    """Seconds by step, in their order."""

    advance: Advance
    steps: int
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.advance(name, len(self.seconds) / self.steps)
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began


async def measure(request: Request, advance: Advance) -> Report:
    if not (_PROJECT / "pyproject.toml").exists():
        raise MisuseError("from-wheel builds a wheel first; run it from a checkout of the project")
    watch = Stopwatch(advance, steps=6 + len(AGENTS))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        target = await asyncio.to_thread(learnt_by_heart, find_family(request.models).target, folder, EDITED_FILE)
        programs = await _install(folder, watch)
        with watch.step("outriderd serve, until ready"):
            serve = ("serve", "--target", str(target), "--listen", "127.0.0.1:0")
            server = await stack.enter_async_context(running("outriderd", *serve, programs=programs))
            address = await server.ready()
        with watch.step("outrider serve, until ready"):
            options = ("--listen", "127.0.0.1:0", "--cache-dir", str(folder / "cache"))
            front = running("outrider", "serve", "--server", address, *options, programs=programs)
            url = f"http://{await (await stack.enter_async_context(front)).ready()}/v1"
        outcomes: list[Outcome] = []
        for agent in AGENTS:
            done = await run_app(agent, url, request.apps)
            outcomes += done or ()
            watch.seconds |= {f"{each.app}: {each.name}": each.seconds for each in done or ()}
    return make_report(watch.seconds, outcomes)


async def _install(folder: Path, watch: Stopwatch) -> Path:
    """A new environment with the wheel; the folder of its programs."""
    with watch.step("pip wheel"):
        # Dependencies are installed already, which is what --no-build-isolation needs.
        options = ("--wheel-dir", str(folder), str(_PROJECT))
        await _run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", *options)
    (wheel,) = folder.glob("outrider-*.whl")
    programs = folder / "venv" / "bin"
    with watch.step("python -m venv"):
        await _run(sys.executable, "-m", "venv", str(folder / "venv"))
    with watch.step("pip install torch"):
        await _run(str(programs / "pip"), "install", f"torch=={version('torch').partition('+')[0]}")
    with watch.step("pip install WHEEL[server]"):
        await _run(str(programs / "pip"), "install", f"{wheel}[server]")
    return programs


async def _run(*command: str) -> None:
    # With it pip would find the checkout's own metadata, and install nothing.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise OutriderError(f"{' '.join(command[:4])} failed: {said.decode()[-_LAST_WORDS:]}")


def make_report(seconds: dict[str, float], outcomes: Sequence[Outcome]) -> Report:
    faults = [f"{each.app} did not edit the file: {each.error}" for each in outcomes if not each.got]
    if not outcomes:
        faults.append(f"none of {', '.join(AGENTS)} is installed here; give --apps")
    total = sum(seconds.values())
    return Report(
        title="From the wheel to an agent that edits a file",
        headings=("step", "seconds"),
        rows=[*([name, f"{taken:.1f}"] for name, taken in seconds.items()), ["all", f"{total:.1f}"]],
        remarks=(
            "One machine, one after the other. pip's packages come from where this machine is set to find them. The "
            "target has learnt by heart what the agents have to hear; making it and installing agents is not counted.",
        ),
        results={"seconds": seconds, "total_seconds": total, "edited": {each.app: each.got for each in outcomes}},
        faults=faults,
    )
