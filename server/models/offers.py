"""What this server offers of all its targets: their names, and which draft models belong to which of them.

It may not know sessions or how a target runs.
"""

from collections.abc import Sequence

from common.models.shipped import draft_checkpoint
from common.protocol.errors import MisuseError
from common.protocol.plain import TYPEABLE, is_typeable, plain
from common.rpc.description_checks import MOST_BUNDLES, MOST_NAMES
from server.models.bundles import checkpoint_name
from server.models.fit import TargetFiles, check_fit, read_target
from server.models.offer import Offer, make_offer
from server.options import ChosenTarget, TargetOptions


def make_offers(options: TargetOptions) -> list[Offer]:
    """One offer for each target, in their order; the first target is the default.

    Raises MisuseError where `make_offer` does, where two targets are of one name or one checkpoint, for a draft model
    that fits none of them, and for more than clients accept.
    """
    _check_count("targets", len(options.targets), MOST_NAMES)
    _check_names([_name(target) for target in options.targets])
    _check_count("draft models", len(options.drafts), MOST_BUNDLES - 1)  # beside `lookup`
    checkpoints = [target.checkpoint for target in options.targets]
    drafts_of = _matched(options.targets, tuple(draft_checkpoint(draft, checkpoints) for draft in options.drafts))
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


def _matched(chosen: Sequence[ChosenTarget], drafts: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
    """The draft models of each target: all that fit it. With one target `make_offer` says which do not."""
    if len(chosen) == 1:
        return [drafts]
    targets = {_name(target): read_target(target.checkpoint) for target in chosen}
    by_fingerprint: dict[str, str] = {}
    for name, target in targets.items():
        twin = by_fingerprint.setdefault(target.fingerprint, name)
        if twin != name:
            raise MisuseError(f"the targets '{twin}' and '{name}' have the same weights and tokens; leave one out")
    matched: list[list[str]] = [[] for _ in targets]
    for draft in drafts:
        reasons = [_why_not(draft, target) for target in targets.values()]
        if all(reasons):
            given = "; ".join(f"'{name}': {reason}" for name, reason in zip(targets, reasons, strict=True))
            raise MisuseError(f"the draft {draft} fits none of the targets; for {given}")
        for fitting, reason in zip(matched, reasons, strict=True):
            if not reason:
                fitting.append(draft)
    return [tuple(fitting) for fitting in matched]


def _why_not(draft: str, target: TargetFiles) -> str:
    """The first reason why the draft model does not fit, empty where it does."""
    try:
        check_fit(draft, target)
    except MisuseError as error:
        return str(error).rstrip(".")
    return ""
