"""One loaded target and any of several draft models: makes answers in rounds on one device, and times them.

What may live here: loading target, exporters and drafters, and running them. It may not know what is compared, nor
tables.
"""

import asyncio
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import torch
from transformers import PreTrainedTokenizerBase

from client.text import chat_tokens
from common.bundle import TAIL_FOLDER, TargetCard
from common.draft_kinds import DraftParts
from common.draft_models.exporters import StateExporter
from common.draft_models.state_codec import read_state_dtype
from common.draft_models.tail import write_tail
from common.draft_models.weight_files import draft_weight_files
from common.drafters.best_first import Expansion
from common.drafters.drafter import Drafter
from common.drafters.load import SPARE_SLOTS, DrafterConfig, load_drafter
from common.drafters.lookup import LookupDrafter
from common.drafters.ranking import Rank, ranking_for
from common.models.checkpoint import load_causal_lm, load_tokenizer
from common.models.packed import PackedModel
from common.models.source import CONFIG, SHARD_INDEX
from common.protocol.draft_state import DEFAULT_DTYPE
from common.protocol.messages import StateRequest
from common.protocol.sampling import LIKELIEST, Sampling
from common.rounds import Rounds, RoundsAnswer, StateChannel
from common.stated_costs import HALF_THE_CORES
from netem.experiments.experiment import Advance
from netem.experiments.one_device.compared_drafts import ComparedDraft, ModelPaths
from netem.experiments.one_device.prompts import BenchmarkPrompt, Prompts
from netem.experiments.steps import Steps
from server.models.draft_models import DraftModel, load_exporters, needed_taps, needs_hidden, read_draft_model
from server.models.target_card import read_card

_NEVER = 1e-12  # a probability below which nothing is left out of a tree


@dataclass(frozen=True, slots=True)
class Tree:
    """`breadth` nodes are added in each of `depth` levels, and at most `nodes` in all."""

    breadth: int
    depth: int
    nodes: int

    @property
    def expansion(self) -> Expansion:
        return Expansion(self.breadth, self.breadth, self.nodes, _NEVER)


PAPER_TREE = Tree(8, 6, 62)
CHAIN = Tree(1, 4, 4)


@dataclass(frozen=True, slots=True)
class TimedRounds:
    """An answer, and the time that this machine took for it, the prompt's pass included."""

    rounds: RoundsAnswer
    seconds: float

    @property
    def gained(self) -> int:
        """The tokens that rounds committed: all but the one of the prompt's own pass."""
        return len(self.rounds.tokens) - 1


@dataclass(frozen=True)
class Bench:
    target: PackedModel
    tokenizer: PreTrainedTokenizerBase
    card: TargetCard
    bundles: Mapping[Path, Path]  # a directory as a client would have it, for each draft's own
    exporters: Mapping[tuple[str, int], Sequence[StateExporter]]

    @property
    def layers(self) -> int:
        return len(self.target.pool.keys_KSD)

    def tokens(self, prompt: BenchmarkPrompt) -> list[int]:
        return chat_tokens(self.tokenizer, [{"role": "user", "content": prompt.text}])

    def tokenised(self, prompts: Prompts) -> dict[str, list[list[int]]]:
        return {category: [self.tokens(prompt) for prompt in chosen] for category, chosen in prompts.items()}

    def text(self, tokens: Sequence[int]) -> str:
        ends = set(self.card.end_tokens)
        return str(self.tokenizer.decode([token for token in tokens if token not in ends]))

    def exporters_of(self, draft: ComparedDraft) -> Sequence[StateExporter]:
        """Of several that share what they are sent, the first's."""
        return next((self.exporters[_key(each)] for each in draft.members if each.kind.state is not None), ())

    def state_dtype(self, draft: ComparedDraft) -> str:
        """In which the draft's state is meant to travel."""
        if draft.directory is None or draft.kind.state is None:
            return DEFAULT_DTYPE
        return read_state_dtype(draft.directory)

    def plain(self, tokens: Sequence[int], new_tokens: int) -> TimedRounds:
        """Decoding without a draft."""
        return self._timed(Rounds(self.target, LookupDrafter(), levels=0), tokens, new_tokens)

    def answer(
        self,
        draft: ComparedDraft,
        tree: Tree,
        tokens: Sequence[int],
        new_tokens: int,
        dtype: str | None = None,
        channel: StateChannel | None = None,
        rule: str = "greedy",
        sampling: Sampling = LIKELIEST,
        rank: Rank = ranking_for,
    ) -> TimedRounds:
        """The answer with a new drafter, so that nothing is left of the prompt before.

        tokens: of the prompt. dtype: of draft state, None for the draft's own. channel: alters the draft state on its
        way.
        """
        dtype = dtype or self.state_dtype(draft)
        drafter = self.drafter(draft, tree, dtype, rank)
        rounds = Rounds(self.target, drafter, self.exporters_of(draft), tree.depth, dtype, channel, rule, sampling)
        return self._timed(rounds, tokens, new_tokens)

    def drafter(
        self, draft: ComparedDraft, tree: Tree = CHAIN, dtype: str = DEFAULT_DTYPE, rank: Rank = ranking_for
    ) -> Drafter:
        """A new drafter that requests its draft state in `dtype`."""
        (kind, site), *beside = [
            (
                each.kind.name,
                DrafterConfig(
                    Path() if each.directory is None else self.bundles[each.directory],
                    str(self.target.model.device),
                    "float32",
                    self.card.context,
                    self.card.vocab_size,
                    StateRequest(each.name, each.depth, dtype),
                    tree.expansion,
                    rank,
                ),
            )
            for each in draft.members
        ]
        return load_drafter(kind, site, beside)

    def _timed(self, rounds: Rounds, tokens: Sequence[int], new_tokens: int) -> TimedRounds:
        begun = time.perf_counter()
        room = self.card.context - len(tokens)
        answer = rounds.answer(tokens, min(new_tokens, room), frozenset(self.card.end_tokens))
        return TimedRounds(answer, time.perf_counter() - begun)


@contextmanager
def open_bench(paths: ModelPaths, drafts: Sequence[ComparedDraft], device: str = "cpu") -> Iterator[Bench]:
    """Raises CheckpointError where a checkpoint cannot be loaded or a draft model was made for another target."""
    torch.set_num_threads(HALF_THE_CORES)  # as both ends do in the other experiments
    drafts = [member for draft in drafts for member in draft.members]
    tokenizer = load_tokenizer(paths.target)
    card = read_card(paths.target.name, paths.target, tokenizer)
    models = [
        read_draft_model(_key(each)[0], each.kind, each.directory, paths.target, card.fingerprint)
        for each in drafts
        if each.directory is not None and each.kind.parts is DraftParts.ON_TAIL
    ]
    model = load_causal_lm(paths.target, device)
    taps = needed_taps(models, model.config.num_hidden_layers)
    target = PackedModel(model, card.context + SPARE_SLOTS, needs_hidden(models), taps)
    with TemporaryDirectory(prefix="outrider-lab-") as folder:
        bundles = _write_bundles(Path(folder), paths.target, drafts, models)
        yield Bench(target, tokenizer, card, bundles, load_exporters(models, target))


def _key(draft: ComparedDraft) -> tuple[str, int]:
    return str(draft.directory), draft.depth


def _write_bundles(
    folder: Path, target: Path, drafts: Sequence[ComparedDraft], models: Sequence[DraftModel]
) -> dict[Path, Path]:
    tail = folder / TAIL_FOLDER
    if models:
        write_tail(target, max(max(model.depths) for model in models), tail)
    bundles: dict[Path, Path] = {}
    for draft in drafts:
        own = draft.directory
        if own is None or own in bundles:
            continue
        if draft.kind.parts is not DraftParts.ON_TAIL:
            bundles[own] = own
            continue
        bundles[own] = folder / str(len(bundles))
        bundles[own].mkdir()
        for file in (own / CONFIG, *own.glob(SHARD_INDEX), *draft_weight_files(own)):
            (bundles[own] / file.name).symlink_to(file.resolve())
        (bundles[own] / TAIL_FOLDER).symlink_to(tail)
    return bundles


System = TypeVar("System", bound=Hashable)
Ask = Callable[[Sequence[int]], TimedRounds]
Results = dict[System, dict[str, list[TimedRounds]]]
"""By system and category, an answer to each prompt."""


TokenPrompts = Mapping[str, Sequence[Sequence[int]]]
"""Token ids of prompts, by category."""


async def ask_all(
    systems: Mapping[System, Ask],
    prompts: TokenPrompts,
    advance: Advance,
    steps: Steps = Steps(),  # noqa: B008
) -> Results[System]:
    """Every system answers every prompt in turn, each a step of the run. Other asyncio tasks, such as signal handlers,
    run between answers."""
    results: Results[System] = {system: {category: [] for category in prompts} for system in systems}
    count = sum(len(chosen) for chosen in prompts.values()) * len(systems)
    done = 0
    for category, chosen in prompts.items():
        for tokens in chosen:
            for system, ask in systems.items():
                advance(f"{category}, {system}", done / count)
                step = f"{category}, {system}"
                results[system][category].append(steps.once(step, partial(ask, tokens)))
                done += 1
                await asyncio.sleep(0)
    return results
