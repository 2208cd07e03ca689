"""Options that belong together, as dataclasses: one parameter in a command's code, single flags on its command line.

It may know signatures, and no program's options.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from typing import Any


def with_folded_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with the options of each parameter whose type is a dataclass of options in place of it."""
    parameters = signature(command).parameters.values()
    folds: dict[str, Any] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}
    options = {name: signature(fold).parameters for name, fold in folds.items()}

    @wraps(command)
    def folded(**given: Any) -> None:
        for name, fold in folds.items():
            given[name] = fold(**{option: given.pop(option) for option in options[name]})
        command(**given)

    unfolded = [each for each in parameters if each.name not in folds]
    unfolding = chain(*(each.values() for each in options.values()))
    # By keyword, so that they may follow any other.
    shown = [*unfolded, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in unfolding)]
    vars(folded)["__signature__"] = Signature(shown)
    return folded
