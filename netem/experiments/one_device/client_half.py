"""Measures what a client needs to run its half of a draft model: memory, and the time of a drafted level.

In a process of its own on one thread, whose memory with everything imported is taken off. It may not know targets'
names or how bundles are made.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from common.drafters.drafter import Drafter

LEVEL_NODES = (1, 4, 6)
"""Nodes of the levels that are timed."""

_PROMPT_TOKENS = 64
_LEVELS, _WARM_UP_LEVELS = 10, 2
_NEVER = 1e-300  # a probability below which nothing is left out of a tree, where all tokens are equally likely


@dataclass(frozen=True, slots=True)
class ClientHalf:
    """Resident memory beyond that of the process with everything imported, after loading and at most, both in bytes;
    `level_s`: the median time of a drafted level without draft state, by its nodes, by the clock; `level_cpu_s`: in
    processor time, which other programs on the core do not lengthen."""

    loaded_bytes: int
    most_bytes: int
    level_s: dict[int, float]
    level_cpu_s: dict[int, float]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure_client_half(bundle: Path, kind: str, layers: int, context: int, vocabulary: int) -> ClientHalf:
    """Loads the draft of a bundle's directory, in whichever weights mode it is, and drafts a few levels with it.

    Raises RuntimeError with what the process said if it fails.
    """
    asked = json.dumps([str(bundle), kind, layers, context, vocabulary])
    command = [sys.executable, "-m", __name__, asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the client's half could not be measured: {done.stderr.strip()[-400:]}")
    found = json.loads(done.stdout)
    times = ({int(nodes): s for nodes, s in found[name].items()} for name in ("level_s", "level_cpu_s"))
    return ClientHalf(found["loaded_bytes"], found["most_bytes"], *times)


def _measure(bundle: str, kind: str, layers: int, context: int, vocabulary: int) -> ClientHalf:
    import psutil
    import torch

    from common.drafters.load import DrafterConfig, import_kind, load_draft_model
    from common.protocol.messages import StateRequest

    import_kind(kind)
    torch.set_num_threads(1)
    process = psutil.Process()
    begun = process.memory_info().rss
    request = StateRequest("measured", layers, "int8")
    make = load_draft_model(kind, DrafterConfig(Path(bundle), "cpu", "float32", context, vocabulary, request))
    loaded = process.memory_info().rss
    timed = {nodes: _level_seconds(make(), nodes, vocabulary) for nodes in LEVEL_NODES}
    clock, processor = ({nodes: times[kind] for nodes, times in timed.items()} for kind in range(2))
    return ClientHalf(loaded - begun, process.memory_info().rss - begun, clock, processor)


def _level_seconds(drafter: "Drafter", nodes: int, vocabulary: int) -> tuple[float, float]:
    """The median over a few levels of so many nodes, below a made-up prompt: by the clock, and in processor time."""
    from common.drafters.best_first import Expansion
    from common.protocol.tree import TokenTree

    drafter.expansion = Expansion(nodes, nodes, nodes * _LEVELS, _NEVER)
    tree = TokenTree([place % vocabulary for place in range(_PROMPT_TOKENS)])
    took_s, used_s = [], []
    for _ in range(_LEVELS):
        view = tree.view()
        begun, used = time.perf_counter(), time.process_time()
        proposals = drafter.draft(view)
        took_s.append(time.perf_counter() - begun)
        used_s.append(time.process_time() - used)
        if len(proposals) != nodes:
            raise RuntimeError(f"the drafter proposed {len(proposals)} nodes and not {nodes}")
        tree.add_server_drafted(tree.frontier, proposals)
    # The first level runs the prompt, the second only the root's children.
    return median(took_s[_WARM_UP_LEVELS:]), median(used_s[_WARM_UP_LEVELS:])


if __name__ == "__main__":
    print(json.dumps(asdict(_measure(*json.loads(sys.argv[1])))))  # noqa: T201 - it is what the parent reads
