"""`messages`: bytes by kind for each token of a prompt and of an answer (Table 7 of Mixture of Attentions), measured
for these models through the whole stack, and computed for Llama-3-8B by the same formulas."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from client.answering import AnswerOptions
from client.assembly import client_for
from client.demo.asking import ask
from client.demo.children import Child, running
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import STREAM
from client.link.stream import Access
from common.address import parse_destination
from common.protocol.draft_state import WIRE_DTYPES, raw_bytes
from common.protocol.errors import MisuseError
from common.rpc.stub import Connection
from common.stated_costs import HALF_THE_CORES, STATED
from netem.experiments.experiment import Advance, Report, Request
from netem.experiments.one_device.bench import open_bench
from netem.experiments.one_device.byte_counts import ANSWER, NODES, OTHER, PROMPT, TOKENS, ByteCounts, MeteredConnection
from netem.experiments.one_device.compared_drafts import ComparedDraft, ModelPaths, find_drafts, find_model_paths
from netem.experiments.one_device.dimensions import LLAMA_8B, eagle, moa, published_config, state_bytes
from netem.experiments.one_device.prompts import Prompts, Workload, choose, in_words
from netem.experiments.quiet import no_bar

HEADINGS = (
    "target",
    "draft",
    "numbers",
    "state, B/prompt token",
    "state, B/answer token that gets it",
    "B/number",
    "tokens down, B/token",
    "nodes up, B/token",
    "acknowledgements up, B/token",
)
DEPTHS = (0, 1, 3)

_COMPUTED = "Llama-3-8B, computed"


FULL = Workload(prompts=2, tokens=96)
QUICK = Workload(prompts=1, tokens=24)


@dataclass(frozen=True)
class MessageSizes:
    """One draft model's bytes. numbers: of each position by kind of state. dtype: empty where it needs no state.

    In results, `state_bytes_per_committed_token` is for each committed token that got its state."""

    draft: ComparedDraft
    dtype: str
    numbers: dict[str, int]
    counts: ByteCounts
    committed: int

    def per_committed(self, size: int) -> float:
        return size / max(1, self.committed)

    @property
    def bytes_per_number(self) -> float:
        """Bytes of all draft state per number, frames included."""
        crossed = sum(count * self.numbers[kind] for (_, kind), count in self.counts.positions.items())
        return sum(self.counts.state_bytes.values()) / crossed if crossed else 0.0

    def as_dict(self) -> dict[str, Any]:
        counts = self.counts
        return {
            "dtype": self.dtype,
            "numbers": self.numbers,
            "committed_tokens": self.committed,
            "state_bytes_per_prompt_token": counts.state_per_position(PROMPT),
            "state_bytes_per_committed_token": counts.state_per_position(ANSWER),
            "bytes_per_number": self.bytes_per_number,
            "bytes_down": dict(counts.down),
            "bytes_up": dict(counts.up),
        }


async def measure(request: Request, advance: Advance) -> Report:
    workload = QUICK if request.quick else FULL
    paths, drafts = find_model_paths(request), find_drafts(request)
    if merged := next((each.name for each in drafts if each.beside), ""):
        raise MisuseError(f"bytes are counted for one draft at a time, not for '{merged}'; give each its own --draft")
    prompts = choose(paths.prompts, workload.prompts, request.seed)
    with open_bench(paths, drafts) as bench:
        numbers = {each: {part.kind: prod(part.shape) for part in bench.exporters_of(each)} for each in drafts}
    runs = [(each, dtype) for each in drafts for dtype in (WIRE_DTYPES if numbers[each] else ("",))]
    measured = []
    async with serving(paths, drafts) as server:
        access = Access(parse_destination(await server.ready()))
        for done, (draft, dtype) in enumerate(runs):
            advance(f"{draft.name} {dtype}", done / len(runs))
            counts = ByteCounts()
            committed = await answer_all(access, draft, dtype or "int8", prompts, workload.tokens, counts)
            measured.append(MessageSizes(draft, dtype, numbers[draft], counts, committed))
    return make_report(measured, {name: len(chosen) for name, chosen in prompts.items()}, workload.tokens)


@asynccontextmanager
async def serving(paths: ModelPaths, drafts: Sequence[ComparedDraft]) -> AsyncIterator[Child]:
    """Runs one server that offers every draft model, at the stated costs."""
    directories = dict.fromkeys(str(each.directory) for each in drafts if each.directory is not None)
    options = [option for directory in directories for option in ("--draft", directory)]
    target = ("--target", str(paths.target), "--threads", str(HALF_THE_CORES), "--listen", "127.0.0.1:0")
    async with running("outriderd", "serve", *target, *options, *STATED.server_arguments) as child:
        yield child


async def answer_all(
    access: Access, draft: ComparedDraft, dtype: str, prompts: Prompts, max_new_tokens: int, counts: ByteCounts
) -> int:
    """Answers every prompt through the whole stack; returns the number of committed tokens."""
    name = draft.kind.name if draft.directory is None else draft.directory.resolve().name
    choice = DraftChoice(name, threads=HALF_THE_CORES, layers=draft.depth, state=dtype)
    options = AnswerOptions(STREAM, max_new_tokens, idle="patient", pace=STATED.draft_seconds)
    committed = 0
    async with AsyncExitStack() as stack:
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-lab-")))
        client = await stack.enter_async_context(client_for(access, choice, cache, no_bar))
        # A session uses nothing of its connection but a stream.
        counted = replace(client, connection=cast(Connection, MeteredConnection(client.connection, counts)))
        for chosen in prompts.values():
            for prompt in chosen:
                answer = await ask(counted, prompt.text, options, client.load_drafter())
                committed += len(answer.tokens)
    return committed


def make_report(measured: Sequence[MessageSizes], sizes: dict[str, int], max_new_tokens: int) -> Report:
    computed = computed_rows()
    return Report(
        title="Bytes by kind for each token",
        headings=HEADINGS,
        rows=[*(_cells(each) for each in measured), *computed],
        remarks=(
            "Draft state comes down once for every token of the prompt and every committed token, but for those at the "
            "end of an answer; it is told for each token that gets it, all else for each committed one. 'lsa' is the "
            "mixed keys and values of all layers, 'kv' those of the layers that the draft runs itself, 'last' those of "
            "the last layer, 'hidden' the last hidden state, 'fused' those of several layers as one vector (three for "
            "eagle3, two for the others).",
            f"Measured: {in_words(sizes)} prompts, at most {max_new_tokens} tokens each, streaming, gRPC on one "
            f"machine; "
            "serialised frames with gRPC's message prefix, so envelopes and compression are included. Tokens down, "
            "nodes up and acknowledgements up are for each committed token and depend on the pace: "
            f"{STATED.in_words}.",
            "Computed: numbers times their size, with a two-byte scale for every 32 of them in int8, before "
            "compression. 'all keys and values' is what a draft would need without layer self-attention.",
        ),
        results={
            "prompts": sizes,
            "measured": {f"{each.draft.name} {each.dtype}".strip(): each.as_dict() for each in measured},
            "computed": [dict(zip(HEADINGS, row, strict=True)) for row in computed],
        },
    )


def computed_rows() -> list[list[str]]:
    """The rows of Llama-3-8B, in both number formats of the wire."""
    moas = [moa(LLAMA_8B, published_config(LLAMA_8B, (depth,)), depth) for depth in DEPTHS]
    rows = []
    for dtype in WIRE_DTYPES:
        everything = 2 * LLAMA_8B.key_width * LLAMA_8B.layers
        sizes = [("all keys and values", raw_bytes(dtype, (1, everything)), everything)]
        sizes += [(each.name, state_bytes(each, dtype), each.state_numbers) for each in (eagle(LLAMA_8B), *moas)]
        for name, size, numbers in sizes:
            cells = [f"{size:,}", f"{size:,}", f"{size / numbers:.2f}"]
            rows.append([_COMPUTED, f"{name}, {dtype}", f"{numbers:,}", *cells, "", "", ""])
    return rows


def _cells(each: MessageSizes) -> list[str]:
    counts = each.counts
    return [
        "this target, measured",
        f"{each.draft.name}, {each.dtype}" if each.dtype else each.draft.name,
        f"{sum(each.numbers.values()):,}",
        _by_kind(counts.state_per_position(PROMPT)),
        _by_kind(counts.state_per_position(ANSWER)),
        f"{each.bytes_per_number:.2f}" if each.dtype else "",
        f"{each.per_committed(counts.down[TOKENS]):.1f}",
        f"{each.per_committed(counts.up[NODES]):.1f}",
        f"{each.per_committed(counts.up[OTHER]):.1f}",
    ]


def _by_kind(sizes: dict[str, float]) -> str:
    return " + ".join(f"{kind} {size:.0f}" for kind, size in sizes.items()) or "0"
