"""Whether a draft model fits a target, by the files of both.

It reads a draft model's weights, and of a target's the fingerprint alone. It may not know who asks.
"""

from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from common.draft_kinds import DraftKind, DraftParts
from common.draft_models.directory import read_draft_kind
from common.models.checkpoint import load_config, load_tokenizer
from common.models.families import context_of
from common.models.fingerprint import fingerprint
from common.models.shipped import shipped_family
from common.models.source import checkpoint_directory
from server.models.bundles import checkpoint_name, find_causal_lm
from server.models.draft_models import read_draft_model


@dataclass(frozen=True, slots=True)
class TargetFiles:
    """What of a target tells which draft models fit it. fingerprint: empty where its weights are not here yet."""

    directory: Path
    tokenizer: PreTrainedTokenizerBase
    fingerprint: str


def read_target(checkpoint: str) -> TargetFiles:
    """Of a directory, a hub id or a shipped family. Raises MisuseError where it cannot be read."""
    directory = target_directory(checkpoint, with_weights=True)
    return TargetFiles(directory, load_tokenizer(directory), fingerprint(directory))


def target_directory(checkpoint: str, *, with_weights: bool) -> Path:
    """Raises MisuseError where there is none."""
    family = shipped_family(checkpoint)
    return checkpoint_directory(family.target if family else checkpoint, with_weights=with_weights)


def check_fit(draft: str, target: TargetFiles) -> DraftKind:
    """The kind of a draft model that fits the target. Raises MisuseError with the first reason why one does not."""
    directory = checkpoint_directory(draft, with_weights=True)
    kind = read_draft_kind(directory)
    if kind.parts is DraftParts.CAUSAL_LM:
        config = load_config(target.directory)
        find_causal_lm(draft, target.tokenizer, context_of(config), config.vocab_size)
    else:
        read_draft_model(checkpoint_name(draft), kind, directory, target.directory, target.fingerprint)
    return kind
