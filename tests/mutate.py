"""`make mutate`: mutation testing with mutmut. It changes one expression of the code at a time and runs the tests that
reach it; a change that no test notices is a survivor. Interrupt it and call it again: what is judged stays judged.

The text of a message is no decision, so strings are not changed, nor lines that raise an error. A property gets fewer
examples than in `make test`, and a failing one is not made smaller, so a survivor may die in the whole suite.
"""

import argparse
import functools
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import libcst
from mutmut import __main__ as mutmut
from mutmut.configuration import config
from mutmut.mutation import file_mutation, mutators
from mutmut.mutation.diff_apply import get_diff_for_mutant


@dataclass(frozen=True)
class Part:
    """Which files are changed, as patterns, and which tests judge them."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


_DRAFT_MODELS = "training/draft_models"
_LOSSES = (
    "blocks",
    "decoder_recipe",
    "divergence",
    "feedback",
    "lags",
    "mixed_states",
    "recipe",
    "straight_through",
    "tail_forward",
    "taps",
)
"""What the recipes compute their losses with, each with tests of its own."""
# Not from the registry: what is imported here could not be changed.
_KINDS = sorted(path.name.removesuffix("_options.py") for path in Path(_DRAFT_MODELS, "recipes").glob("*_options.py"))

PARTS = {
    "protocol": Part(("common/protocol/*",), ("tests/common/protocol",)),
    "server": Part(
        (
            "server/sessions/*",
            "server/passes/scheduler.py",
            "server/passes/sequence.py",
            "server/passes/server_drafting.py",
            "server/passes/*_cost.py",
        ),
        ("tests/server/sessions", "tests/server/passes", "tests/server/models/test_server_drafters_of_sessions.py"),
    ),
    "losses": Part(
        (
            *(f"{_DRAFT_MODELS}/{name}.py" for name in (*_LOSSES, "path_heads")),
            *(f"{_DRAFT_MODELS}/recipes/{kind}.py" for kind in _KINDS),
        ),
        (*(f"tests/{_DRAFT_MODELS}/test_{name}.py" for name in _LOSSES), f"tests/{_DRAFT_MODELS}/recipes"),
    ),
}

_LEAST_EXAMPLES = 50
_FEWER_EXAMPLES = 6
_KILLED = ("killed", "timeout", "segfault")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sample", type=int, help="as many mutants, drawn at random; without it, all")
    parser.add_argument("--seed", type=int, default=0, help="what the sample follows from")
    parser.add_argument("--again", action="store_true", help="judge survivors again, after tests were added")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    part = PARTS[arguments.part]
    # The tests of this tree, which this module belongs to, judge the changed code of the other.
    os.environ["PY_IGNORE_IMPORTMISMATCH"] = "1"
    _leave_strings_alone()
    _change_properties_too()
    _draw_fewer_examples()
    config().only_mutate = list(part.sources)
    config().pytest_add_cli_args_test_selection = [*part.tests, *config().pytest_add_cli_args_test_selection]
    every_mutant = mutmut.collect_source_file_mutation_data

    def drawn(*, mutant_names: Sequence[str] = ()) -> Any:
        mutants, by_path = every_mutant(mutant_names=mutant_names)
        return _draw(mutants, arguments.sample, arguments.seed), by_path

    def to_judge(*, mutant_names: Sequence[str] = ()) -> Any:
        mutants, by_path = drawn(mutant_names=mutant_names)
        if not arguments.again:
            return mutants, by_path
        return [(data, name, code if _is_killed(code) else None) for data, name, code in mutants], by_path

    mutmut.collect_source_file_mutation_data = to_judge
    mutmut._run((), arguments.processes)
    sys.stdout.write(_report(drawn()[0], every_mutant(mutant_names=())[0]))


def _draw(mutants: list[Any], count: int | None, seed: int) -> list[Any]:
    """A part of any two sizes contains the smaller one."""
    ordered = sorted(mutants, key=lambda mutant: mutant[1])
    random.Random(seed).shuffle(ordered)
    return ordered[:count]


def _report(drawn: list[Any], every_mutant: list[Any]) -> str:
    """Each survivor as a difference, and the score of each module."""
    killed: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    survivors = []
    for data, name, code in drawn:
        if code is None:
            continue
        path = str(data.path)
        judged[path] += 1
        if _is_killed(code):
            killed[path] += 1
        else:
            survivors.append(
                f"{name}: {mutmut.status_by_exit_code[code]}\n{get_diff_for_mutant(name, path=data.path)}\n"
            )
    scores = [f"{path}: {killed[path]} of {judged[path]}\n" for path in sorted(judged)]
    share = 100 * killed.total() / max(1, judged.total())
    total = f"killed {killed.total()} of {judged.total()}, {share:.1f}%, of {len(every_mutant)} in {_commit()}\n"
    return "".join([*survivors, *scores, total])


def _commit() -> str:
    """Which one is judged, and its date: a score is of no other."""
    return subprocess.run(
        ["git", "log", "-1", "--format=%h of %cs"], check=True, capture_output=True, text=True
    ).stdout.strip()


def _is_killed(code: int | None) -> bool:
    return mutmut.status_by_exit_code[code] in _KILLED


def _leave_strings_alone() -> None:
    operators = mutators.mutation_operators
    operators[:] = [(kind, change) for kind, change in operators if kind is not libcst.BaseString]


def _change_properties_too() -> None:
    """mutmut leaves decorated functions alone, but many decisions are properties. Variants of them are functions."""
    visitor = file_mutation.MutationVisitor
    skips, arrange = visitor._skip_node_and_children, file_mutation.function_trampoline_arrangement

    def skips_others(self: Any, node: libcst.CSTNode) -> bool:
        return not _is_property(node) and skips(self, node)

    def arrange_property(function: libcst.FunctionDef, *args: Any, **kwargs: Any) -> Any:
        if not _is_property(function):
            return arrange(function, *args, **kwargs)
        before, (chooser, *variants), *rest = arrange(function.with_changes(decorators=[]), *args, **kwargs)
        return before, [chooser.with_changes(decorators=[*function.decorators, *chooser.decorators]), *variants], *rest

    visitor._skip_node_and_children = skips_others
    file_mutation.function_trampoline_arrangement = arrange_property


def _is_property(node: libcst.CSTNode) -> bool:
    if not isinstance(node, libcst.FunctionDef) or len(node.decorators) != 1:
        return False
    decorator = node.decorators[0].decorator
    return isinstance(decorator, libcst.Name) and decorator.value == "property"


def _draw_fewer_examples() -> None:
    whole = hypothesis.settings.__init__

    @functools.wraps(whole)
    def fewer(self: hypothesis.settings, *args: Any, **kwargs: Any) -> None:
        if isinstance(kwargs.get("max_examples"), int):
            kwargs["max_examples"] = max(_LEAST_EXAMPLES, kwargs["max_examples"] // _FEWER_EXAMPLES)
        whole(self, *args, **kwargs)

    hypothesis.settings.__init__ = fewer  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
