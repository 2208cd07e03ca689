"""Finds the target, the prompts and the draft models that an experiment compares. Reads configurations, loads no
weights.

It may not know how a draft model runs or what is measured.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.draft_kinds import DRAFT_KINDS, STATELESS_KINDS, TRAINED_KINDS, DraftKind
from common.draft_models.directory import read_draft_depths, read_draft_kind, read_target_fingerprint
from common.models.shipped import FAMILIES, HOW_TO_RESTORE, shipped_family
from common.models.source import CONFIG
from common.protocol.errors import MisuseError
from netem.experiments.experiment import Request

_TARGET, _PROMPTS = "target", "prompts.jsonl"
_DEFAULT = TRAINED_KINDS[0].name
"""What to train where no kind was named."""


@dataclass(frozen=True, slots=True)
class ComparedDraft:
    """A draft model at one depth. depth: N, the target's last layers that it runs. directory: None without weights.
    beside: others that draft into the same tree."""

    name: str
    kind: DraftKind
    directory: Path | None
    depth: int = 0
    beside: tuple["ComparedDraft", ...] = ()

    @property
    def members(self) -> tuple["ComparedDraft", ...]:
        """All that draft into its tree, itself first."""
        return (replace(self, name=self.name.split("+")[0], beside=()), *self.beside)

    @property
    def forwards(self) -> int:
        """Of networks, in each drafted level; drafts without weights alone count as one."""
        return max(1, sum(each.directory is not None for each in self.members))


_WITHOUT_WEIGHTS = {name: ComparedDraft(name, DRAFT_KINDS[name], None) for name in reversed(STATELESS_KINDS)}


@dataclass(frozen=True, slots=True)
class ModelPaths:
    """The checkpoint of the target, the file of prompts, and the folder whose subfolders are draft models."""

    target: Path
    prompts: Path
    folder: Path


def find_model_paths(request: Request) -> ModelPaths:
    """The paths in the request's folder of models; target and prompts are the shipped ones where it has none.

    Raises MisuseError where there is no such folder, or neither has them.
    """
    shipped = FAMILIES["demo"].folder
    if request.models is None:
        shipped_family("demo")  # raises where they are absent
    models = request.models or shipped
    if not models.is_dir():
        raise MisuseError(f"there is no folder {models}; --models names one whose subfolders are drafts")
    target, prompts = (
        next((folder / name for folder in (models, shipped) if (folder / name).exists()), models / name)
        for name in (_TARGET, _PROMPTS)
    )
    if not (target.is_dir() and prompts.is_file()):
        raise MisuseError(f"{models} has no {_TARGET} or no {_PROMPTS}, nor has {shipped}: {HOW_TO_RESTORE}")
    return ModelPaths(target, prompts, models)


def find_drafts(request: Request, with_weightless: bool = True) -> list[ComparedDraft]:
    """The drafts that the request names, in its order; else all, those without weights first. One of several depths
    comes once for each. Raises MisuseError where one is missing, with what to train."""
    folder = find_model_paths(request).folder
    if request.drafts:
        return [draft for name in request.drafts for draft in _named(folder, name)]
    names = sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}") if path.parent.name != _TARGET)
    found = [draft for name in names for draft in _in_folder(folder, name)]
    if not found:
        raise MisuseError(f"{folder} holds no draft; {_advice(folder, _DEFAULT)}")
    kinds = [*DRAFT_KINDS][::-1]
    rest = sorted(found, key=lambda draft: kinds.index(draft.kind.name))
    return [*_WITHOUT_WEIGHTS.values(), *rest] if with_weightless else rest


def models(request: Request) -> Mapping[str, Path]:
    """The target and every draft by its folder's name, which is what a run loads."""
    paths = find_model_paths(request)
    members = [member for draft in find_drafts(request) for member in draft.members]
    found = [member.directory for member in members if member.directory is not None]
    return {_TARGET: paths.target, **{directory.name: directory for directory in found}}


def need(drafts: Sequence[ComparedDraft], kind: str, folder: Path) -> list[ComparedDraft]:
    """Those of one kind. Raises MisuseError where there is none, with what to train."""
    found = [draft for draft in drafts if draft.kind.name == kind]
    if not found:
        raise MisuseError(f"this experiment needs a draft of kind '{kind}'; {_advice(folder, kind)}")
    return found


def _named(folder: Path, name: str) -> Iterator[ComparedDraft]:
    """`name` may end in `:N`, which chooses a depth, and then in others, as in `+lookup`, that draft into the same
    tree; of several depths, the first of theirs."""
    name, *others = name.split("+")
    if others:
        beside = tuple(next(iter(_named(folder, other))) for other in others)
        for draft in _named(folder, name):
            _check_targets([draft, *beside])
            yield replace(draft, name="+".join(each.name for each in (draft, *beside)), beside=beside)
        return
    base, _, depth = name.partition(":")
    if base in _WITHOUT_WEIGHTS:
        yield _WITHOUT_WEIGHTS[base]
        return
    if base == _TARGET or not (folder / base / CONFIG).is_file():
        raise MisuseError(f"{folder} holds no draft '{base}'; {_advice(folder, base)}")
    found = list(_in_folder(folder, base))
    chosen = [draft for draft in found if not depth or str(draft.depth) == depth]
    if not chosen:
        depths = ", ".join(str(draft.depth) for draft in found)
        raise MisuseError(f"the draft '{base}' has no depth {depth}; choose one of {depths}")
    yield from chosen


def _in_folder(folder: Path, name: str) -> Iterator[ComparedDraft]:
    directory = folder / name
    kind = read_draft_kind(directory)
    depths = read_draft_depths(directory)
    if not depths:
        yield ComparedDraft(name, kind, directory)
    for depth in depths:
        yield ComparedDraft(f"{name}, N={depth}", kind, directory, depth)


def _check_targets(drafts: Sequence[ComparedDraft]) -> None:
    """Raises MisuseError where two were made for different targets."""
    made_for: dict[str, str] = {}  # a draft of each target
    for draft in drafts:
        if draft.directory is not None and (target := read_target_fingerprint(draft.directory)):
            made_for.setdefault(target, draft.name)
    if len(made_for) > 1:
        one, other = [*made_for.values()][:2]
        raise MisuseError(
            f"'{one}' and '{other}' cannot draft together, for they were made for different targets; name drafts of one"
        )


def _advice(folder: Path, name: str) -> str:
    kind = name if name in DRAFT_KINDS else _DEFAULT
    target = folder / _TARGET if (folder / _TARGET).is_dir() else "demo"
    return f"train one with `outrider-train {kind} --target {target} --data FILE --out {folder / name}`"
