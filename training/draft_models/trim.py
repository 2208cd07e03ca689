"""Trims the head of a trained or published draft model to the most frequent tokens of some text, without training it
again (FR-Spec, Zhao et al. 2025, arXiv 2502.14856). Answers stay the target's: it still chooses among all tokens.

What may live here: counting, and writing the trimmed draft model. It may not know losses or the training loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from common.atomic import removed_unless_whole
from common.draft_models import eagle, moa
from common.draft_models.directory import (
    DraftFacts,
    check_fingerprint,
    check_sizes,
    read_draft_kind,
)
from common.draft_models.measured_acceptance import note_trimmed, read_measured_acceptance, write_measured_acceptance
from common.draft_models.vocabulary import most_frequent
from common.models.checkpoint import load_config, load_tokenizer, read_end_tokens
from common.models.families import context_of
from common.models.fingerprint import fingerprint
from common.models.shipped import shipped_family
from common.models.source import checkpoint_directory
from common.protocol.errors import MisuseError
from training.draft_models.data import DataSettings, load_data
from training.draft_models.records import read_records
from training.draft_models.trainer import LONGEST_SAMPLE
from training.writing import BEGUN_AGAIN, written


@dataclass(frozen=True)
class Trimmed:
    """`covered`: the share of the text's tokens that the draft may still propose."""

    vocabulary: int
    covered: float


def trim_draft(draft: str, target: str, data: Sequence[Path], size: int, out: Path) -> Trimmed:
    """Writes the draft model to `out` with `size` tokens: the target's end tokens, and those that are most frequent in
    the answers of `data`.

    Accept lengths stay those that were measured with the whole head, of which the directory then says so. Raises
    MisuseError for a kind that has no head of its target, a `size` that is none, or an `out` that is not empty;
    CheckpointError for a draft of another target.
    """
    directory = checkpoint_directory(draft, with_weights=True)
    kind = read_draft_kind(directory).name
    if kind not in _KINDS:
        raise MisuseError(
            f"a draft model of kind '{kind}' does not propose by the head of its target; trim one of: "
            f"{', '.join(_KINDS)}"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise MisuseError(f"--out {out} is not empty: choose another folder")
    family = shipped_family(target)
    place = checkpoint_directory(family.target if family else target, with_weights=True)
    config, identity = load_config(place), fingerprint(place)
    read_facts, write = _KINDS[kind]
    check_fingerprint(directory, identity)
    check_sizes(directory, read_facts(directory), config)
    vocabulary = int(config.vocab_size)
    if not 1 <= size <= vocabulary:
        raise MisuseError(f"--draft-vocabulary must lie between 1 and the target's {vocabulary}, not {size}")
    tokenizer = load_tokenizer(place)
    end_tokens = read_end_tokens(place, config, tokenizer)
    counts = _count(data, tokenizer, end_tokens, config)
    kept = most_frequent(counts, size, end_tokens)
    with written(f"the draft in {out}", BEGUN_AGAIN), removed_unless_whole(out):
        write(directory, identity, kept, out)
        write_measured_acceptance(out, read_measured_acceptance(directory))
        note_trimmed(out, Path(draft).expanduser().resolve().name)
    return Trimmed(vocabulary, float(counts[kept].sum() / counts.sum()))


def _count(
    data: Sequence[Path], tokenizer: PreTrainedTokenizerBase, end_tokens: frozenset[int], config: PreTrainedConfig
) -> torch.Tensor:
    """How often each token is to be predicted, int64 [vocabulary]."""
    length = min(LONGEST_SAMPLE, context_of(config) or LONGEST_SAMPLE)
    settings = DataSettings(length, seed=0, held_out=False, vocabulary=int(config.vocab_size))
    samples = load_data(read_records(data), tokenizer, end_tokens, settings).samples
    predicted = torch.cat([torch.from_numpy(sample.ids[1:][sample.answers[1:]]) for sample in samples])
    return torch.bincount(predicted.long(), minlength=int(config.vocab_size))


def _write_eagle(directory: Path, identity: str, kept: torch.Tensor, out: Path) -> None:
    eagle.save_eagle(out, identity, eagle.load_eagle(directory)[0], kept)


def _write_moa(directory: Path, identity: str, kept: torch.Tensor, out: Path) -> None:
    config = moa.read_moa_config(directory)
    halves = {depth: moa.load_moa(directory, depth)[0] for depth in config.depths}
    moa.save_moa(out, identity, config, halves, moa.load_lsa(directory), kept)


_KINDS: Mapping[str, tuple[Callable[[Path], DraftFacts], Callable[[Path, str, torch.Tensor, Path], None]]] = {
    moa.KIND: (moa.read_facts, _write_moa),
    eagle.KIND: (eagle.read_facts, _write_eagle),
}
"""Of the kinds that propose by the target's head, `read_facts` and what writes one with trimmed proposals."""
