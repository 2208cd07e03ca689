"""The command line of `outrider-lab run` as results keep it: the experiment, and the options that were given.

Pure; it may not know what an experiment does with its options.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import APPS, DATA, DEVICE, DRAFT, LLAMA_SERVER, MODELS, TARGET

OUT, SEED = "--out", "--seed"
WITH_VALUE = (OUT, SEED, DATA, MODELS, DRAFT, TARGET, APPS, LLAMA_SERVER, DEVICE)
"""All options that have one."""

_RUN = "run"
_PATHS = (DATA, MODELS, APPS, LLAMA_SERVER)
_NO_CHOICES = (OUT, SEED)
_DEFAULTS = {DEVICE: ("cpu",)}


@dataclass(frozen=True, slots=True)
class RunCommand:
    """options: the values of each that was given, in their order; none of one that has no value."""

    experiment: str
    options: Mapping[str, tuple[str, ...]]

    @property
    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """What decides what is measured, the seed aside, which results keep by themselves. Of paths, which differ from
        machine to machine, that they were given."""
        return {
            option: () if option in _PATHS else values
            for option, values in self.options.items()
            if option not in _NO_CHOICES and values != _DEFAULTS.get(option)
        }


def read_command(command: str) -> RunCommand:
    """The experiment is the name that follows `run`, whatever options are between; what follows it where none of them
    is known. Raises LookupError where nothing follows, ValueError where a quote is not closed."""
    words = shlex.split(command)
    following = iter(words[words.index(_RUN) + 1 :] if _RUN in words else words)
    names: list[str] = []
    options: dict[str, tuple[str, ...]] = {}
    for word in following:
        if not word.startswith("--"):
            names.append(word)
            continue
        option, is_joined, value = word.partition("=")
        values = (value if is_joined else next(following, ""),) if option in WITH_VALUE else ()
        options[option] = options.get(option, ()) + values
    return RunCommand(next((name for name in names if name in EXPERIMENTS), names[0]), options)
