"""All experiments in their full form, with their arguments, as `outrider-lab results` runs them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netem.experiments.experiment import APPS, DATA, LLAMA_SERVER, Request
from netem.experiments.run_command import RunCommand, read_command

ABLATION, SEEDS = "--ablation", "--seeds"
"""Options that name folders of models that do not ship: draft models that differ in one part each, and families whose
draft models were trained from other seeds, in a folder named after the seed each."""

_FURTHER_SEEDS = ("8", "9")
"""Beside 7, of those that ship."""

Outside = Mapping[str, Sequence[Path]]
"""What an experiment may need from outside the repository, by the option that names it."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """folder: where its results are kept. timed: whether another program on the machine would change its results.
    needs: the options without which it cannot run. family: the folder in what `--seeds` names."""

    folder: str
    experiment: str
    timed: bool = False
    drafts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    family: str = ""

    def request(self, outside: Outside) -> Request:
        given = {option: outside.get(option, ()) for option in self.needs}
        data, llama = (next(iter(given.get(option, ())), None) for option in (DATA, LLAMA_SERVER))
        models = next((path / self.family for option in (ABLATION, SEEDS) for path in given.get(option, ())), None)
        return Request(0, False, data, models, self.drafts, (), tuple(given.get(APPS, ())), llama)

    def arguments(self, outside: Outside) -> list[str]:
        """Of `outrider-lab run`, without the folder."""
        return [self.experiment, *(word for option in self.request(outside).given for word in option)]

    def is_run_of(self, command: RunCommand, outside: Outside) -> bool:
        """Whether a command measures what this run does; of what it needs and is not at hand, any path is taken."""
        needed = {option: outside.get(option) or [Path("anywhere")] for option in self.needs}
        own = read_command(shlex.join(self.arguments(needed)))
        return (command.experiment, command.choices) == (own.experiment, own.choices)


def _plain(experiment: str, *needs: str) -> KeptRun:
    return KeptRun(experiment, experiment, needs=needs)


def _timed(experiment: str, *needs: str) -> KeptRun:
    return KeptRun(experiment, experiment, timed=True, needs=needs)


_EVERY_DRAFT = (
    *("lookup", "lookahead", "ouroboros", "medusa", "clover", "hydra"),
    *("independent", "independent+lookup", "independent+lookahead", "independent+ouroboros"),
    *("glide", "eagle", "tandem", "eagle3"),
    *("moa", "moa:0+lookup", "moa:0+lookahead", "moa:0+ouroboros", "moa:0+independent", "dflash"),
    *("block", "block+lookup"),
)
_ALONE = ("lookup", "eagle3", "moa:0", "moa:1", "moa:3", "moa:0+lookup", "block", "block+lookup")
"""Those that are compared over links that break."""
_ABLATED = ("eagle", "moa-published", "moa-ca", "moa-lsa", "moa-mixture", "moa:1", "moa:3")

RUNS: tuple[KeptRun, ...] = (
    KeptRun("single-device", "single-device", drafts=_EVERY_DRAFT),
    KeptRun("ablation", "ablation", drafts=_ABLATED, needs=(ABLATION,)),
    *map(_plain, ("quality", "trees", "messages", "states", "sampling", "weights", "formula")),
    *map(_plain, ("network", "first-token", "load", "frontier", "sets", "controller", "draft-choice")),
    KeptRun("disconnect", "disconnect", drafts=(*_ALONE, "medusa", "independent", "glide", "tandem", "eagle")),
    KeptRun("reconnect", "reconnect", drafts=_ALONE),
    *map(_plain, ("flapping", "conformance", "families", "ranks", "law")),
    *map(_plain, ("capacity", "capacity-failures", "mixed")),
    _plain("exactness", DATA),
    _plain("coupled", DATA),
    *(KeptRun(f"network-seed-{seed}", "network", needs=(SEEDS,), family=seed) for seed in _FURTHER_SEEDS),
    *(
        KeptRun(f"single-device-seed-{seed}", "single-device", drafts=("moa", "block"), needs=(SEEDS,), family=seed)
        for seed in _FURTHER_SEEDS
    ),
    *map(_timed, ("precision", "engine", "sizes")),
    *map(_timed, ("clock", "clock-replayed", "load-timed", "capacity-timed")),
    *map(_timed, ("streaming", "clients", "overload", "torture", "rolling")),
    *map(_timed, ("replicas", "fleet", "soak")),
    *(_timed(each, APPS) for each in ("apps", "from-wheel")),
    _timed("beside-others", LLAMA_SERVER),
)
"""In the order in which they run: what is deterministic first."""
