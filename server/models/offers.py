"""What this server offers of all its targets: their names, and which draft models belong to which of them.

It may not know sessions or how a target runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from common.models.checkpoint import load_tokenizer
from common.models.fingerprint import fingerprint
from common.models.shipped import shipped_family
from common.models.source import checkpoint_directory
from common.protocol.errors import MisuseError
from common.protocol.plain import TYPEABLE, is_typeable, plain
from common.rpc.description_checks import MOST_BUNDLES, MOST_NAMES
from server.models.bundles import checkpoint_name
from server.models.inspect import check_fit
from server.models.offer import Offer, make_offer
from server.options import ChosenTarget, TargetOptions


@dataclass(frozen=True, slots=True)
class _NamedTarget:
    """What tells whether a draft model fits."""

    name: str
    directory: Path
    tokenizer: PreTrainedTokenizerBase
    fingerprint: str


def make_offers(options: TargetOptions) -> list[Offer]:
    """One offer for each target, in their order; the first target is the default.

    Raises MisuseError where `make_offer` does, where two targets are of one name or one checkpoint, for a draft model
    that fits none of them, and for more than clients accept.
    """
    _check_count("targets", len(options.targets), MOST_NAMES)
    _check_names([_name(target) for target in options.targets])
    _check_count("draft models", len(options.drafts), MOST_BUNDLES - 1)  # beside `lookup`
    drafts_of = _matched(options)
    return [
        make_offer(target.checkpoint, drafts, target.name)
        for target, drafts in zip(options.targets, drafts_of, strict=True)
    ]


def _name(target: ChosenTarget) -> str:
    return target.name or checkpoint_name(target.checkpoint)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise MisuseError(f"two targets are named '{name}'; name one of them with --target NAME=CHECKPOINT")
        if not is_typeable(name):
            raise MisuseError(
                f"no client could type the name '{plain(name)}'; name it with --target NAME=CHECKPOINT, and {TYPEABLE}"
            )


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise MisuseError(f"{count} {what} are more than the {most} that clients accept of one server; leave some out")


def _matched(options: TargetOptions) -> Sequence[tuple[str, ...]]:
    """The draft models of each target: all that fit it. With one target `make_offer` says which do not."""
    if len(options.targets) == 1:
        return [options.drafts]
    targets = [_read(target) for target in options.targets]
    known = [target.fingerprint for target in targets]
    for target in targets:
        twin = targets[known.index(target.fingerprint)]
        if twin is not target:
            raise MisuseError(f"the targets '{twin.name}' and '{target.name}' are the same checkpoint; leave one out")
    matched: list[list[str]] = [[] for _ in targets]
    for draft in options.drafts:
        reasons = [_why_not(draft, target) for target in targets]
        if all(reasons):
            given = "; ".join(f"'{target.name}': {reason}" for target, reason in zip(targets, reasons, strict=True))
            raise MisuseError(f"the draft {draft} fits none of the targets; for {given}")
        for drafts, reason in zip(matched, reasons, strict=True):
            if not reason:
                drafts.append(draft)
    return [tuple(drafts) for drafts in matched]


def _read(target: ChosenTarget) -> _NamedTarget:
    family = shipped_family(target.checkpoint)
    directory = checkpoint_directory(family.target if family else target.checkpoint, with_weights=True)
    return _NamedTarget(_name(target), directory, load_tokenizer(directory), fingerprint(directory))


def _why_not(draft: str, target: _NamedTarget) -> str:
    """The first reason why the draft model does not fit, empty where it does."""
    try:
        check_fit(draft, target.directory, target.tokenizer, target.fingerprint)
    except MisuseError as error:
        return str(error).rstrip(".")
    return ""
