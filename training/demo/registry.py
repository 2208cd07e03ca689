"""The list of task families and which of them are held out from training.

What may live here: registration, the loading of the family files, and the held-out names. It may not know how any
family works.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from training.demo.instance import InstanceDraw, Sketch

Family = Callable[[InstanceDraw], Sketch]

FAMILY_FILES = ("grid", "grouped", "sequences", "scalars", "text", "mappings", "matrices")

# Chosen before the families were composed from parts.
FIRST_HELD_OUT = frozenset(
    {
        "multiply_numbers",
        "smallest_number",
        "remove_numbers",
        "filter_map_words",
        "any_word",
        "index_of_word",
        "shortest_word",
        "join_changed_words",
        "running_smallest",
        "neighbour_sums",
        "largest_digit",
        "sum_of_multiples",
        "remove_vowels",
        "map_text_words",
        "count_entries",
        "key_of_smallest",
        "all_entries",
        "row_largest",
        "count_matrix_cells",
        "either_check",
        "group_keys",
        "running_changed_total",
    }
)
# Chosen among the composed families.
FURTHER_HELD_OUT = frozenset(
    {
        "count_values",
        "multiply_digits",
        "longest_keys",
        "average_cells",
        "sort_by_length_parts",
        "any_characters",
        "last_values",
        "dedupe_words",
        "frequencies_digits",
        "join_keys",
        "take_first_parts",
        "running_largest_values",
        "neighbour_differences_cells",
        "column_smallest",
        "matrix_with_smallest_sum",
    }
)
HELD_OUT = FIRST_HELD_OUT | FURTHER_HELD_OUT

_FAMILIES: dict[str, Family] = {}


def register(name: str, make: Family) -> None:
    """Add a family; every name belongs to one family."""
    if name in _FAMILIES:
        raise ValueError(f"two families are called {name}")
    _FAMILIES[name] = make


def families() -> dict[str, Family]:
    """All families by name, in a stable order."""
    for file in FAMILY_FILES:
        importlib.import_module(f"training.demo.tasks.{file}")
    return dict(sorted(_FAMILIES.items()))


def training_families() -> dict[str, Family]:
    return {name: make for name, make in families().items() if name not in HELD_OUT}


def held_out_families() -> dict[str, Family]:
    return {name: make for name, make in families().items() if name in HELD_OUT}
