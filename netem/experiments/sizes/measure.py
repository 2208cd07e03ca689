"""`sizes`: memory and time of both ends for targets in their true shapes, measured where the machine holds them.

Server and client are processes of their own, and answers cross an emulated link. What does not fit into memory is
computed instead: of a target, first the server's side.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import psutil

from common.memory import free_memory_bytes
from common.protocol.errors import MisuseError
from common.weight_only.modes import AS_IS, MODES
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.computing import device_name
from netem.experiments.one_device.dimensions import server_bytes
from netem.experiments.sizes.draft_models import DRAFTS, SizedDraft
from netem.experiments.sizes.ends import LINK, Ends, both_ends, client_alone, made, variants
from netem.experiments.sizes.memory import Resident
from netem.experiments.sizes.report import make_report
from netem.experiments.sizes.rows import (
    CONTEXT,
    NUMBER_BYTES,
    STORED,
    ClientNumbers,
    Place,
    Row,
    ServerNumbers,
    make_row,
)
from netem.experiments.sizes.targets import TARGETS, SizedTarget, chosen_targets, shrunk
from netem.links.backends import choose_backend
from netem.links.profiles import find_profile

Known = TypeVar("Known")

_SPARE_BYTES = 1_500_000_000
"""Of memory, for this process, libraries and what a pass computes."""


async def measure(request: Request, advance: Advance) -> Report:
    targets = chosen_targets(request.targets or ((TARGETS[0].dimensions.name,) if request.quick else ()), request.quick)
    drafts = [*_chosen("draft", {each.name: each for each in DRAFTS}, request.drafts).values()]
    backend, device = await choose_backend("auto"), request.device
    # On a GPU the server is what is measured, in half precision: the client is the same as beside a CPU.
    is_narrow = request.quick or device != "cpu"
    considered, all_modes = ([STORED], (AS_IS,)) if is_narrow else (list(NUMBER_BYTES), MODES)
    fitting = {name: [each for each in considered if _fits(targets[name], drafts, each, device)] for name in targets}
    advance("processes without weights", 0.0)
    with made(shrunk(TARGETS[0]), drafts, request.seed, whole=True) as folder:
        # Libraries take more memory for some dtypes than for others.
        dtypes = [dtype for dtype in NUMBER_BYTES if any(dtype in fit for fit in fitting.values())]
        empty = {dtype: await both_ends(folder, dtype, backend, device=device) for dtype in dtypes}
        empty_alone = await client_alone(folder, STORED)
    rows: list[Row] = []
    for number, (name, fit) in enumerate(fitting.items()):
        kept = None if request.models is None else request.models / name
        with made(targets[name], drafts, request.seed, whole=bool(fit), device=device, kept=kept) as folder:
            for turn, dtype in enumerate(fit or [STORED]):
                advance(f"{name} in {dtype}", (number + turn / len(NUMBER_BYTES)) / len(fitting))
                modes = all_modes if dtype == STORED else (AS_IS,)
                if fit:
                    ends, base = await both_ends(folder, dtype, backend, modes, device), empty[dtype]
                else:
                    ends, base = await client_alone(folder, dtype, modes), empty_alone
                rows += make_rows(targets[name], variants(drafts, modes), dtype, ends, base)
    return make_report(rows, LINK, backend, device_name(device) if device != "cpu" else "")


def _chosen(what: str, known: Mapping[str, Known], names: Sequence[str]) -> dict[str, Known]:
    """All where none is named, in their own order. Raises MisuseError for a name that is unknown."""
    for name in names:
        if name not in known:
            raise MisuseError(f"this experiment has no {what} '{name}'; choose from {', '.join(known)}")
    return {name: each for name, each in known.items() if not names or name in names}


def make_rows(
    target: SizedTarget, drafts: Sequence[tuple[SizedDraft, str]], dtype: str, ends: Ends, empty: Ends
) -> list[Row]:
    """drafts: with weights modes, a row for each. empty: what the same processes take with hardly any weights."""
    sizes = [draft.size(target.dimensions) for draft in dict.fromkeys(draft for draft, _ in drafts)]
    server = None
    if ends.server is not None and empty.server is not None and ends.pass_s is not None:
        server = ServerNumbers(*_beyond(ends.server, empty.server), ends.pass_s)
    rows = []
    for draft, weights in drafts:
        run, client = ends.clients.get((draft.name, weights)), None
        if run is not None:
            beyond = _beyond(run.reading.memory, empty.clients[draft.name, AS_IS].reading.memory)
            client = ClientNumbers(*beyond, run.bundle_bytes, run.reading.level_s, run.reading.ready_s)
        place = Place(target.dimensions, draft.size(target.dimensions), weights, dtype)
        answer = "" if run is None else run.answer
        rows.append(make_row(place, sizes, client, server, answer, find_profile(LINK).down.rate_bits_per_s or 0.0))
    return rows


def _beyond(memory: Resident, empty: Resident) -> tuple[int, int]:
    return memory.now - empty.now, memory.peak - empty.now


def _fits(target: SizedTarget, drafts: Sequence[SizedDraft], dtype: str, device: str = "cpu") -> bool:
    """Whether both ends have room in memory, looked at beforehand."""
    sizes = [draft.size(target.dimensions) for draft in drafts]
    server = server_bytes(target.dimensions, sizes, CONTEXT, NUMBER_BYTES[dtype])
    clients = [Place(target.dimensions, size, AS_IS, dtype).client_bytes for size in sizes]
    room = psutil.virtual_memory().available
    if device == "cpu":
        return server + max(clients) + _SPARE_BYTES < room
    return server + _SPARE_BYTES < free_memory_bytes(device) and max(clients) + _SPARE_BYTES < room
