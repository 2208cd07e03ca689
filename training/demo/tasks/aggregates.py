"""What composed families do with the elements that they select: one row per aggregate, with its words and its last
lines.

What may live here: aggregates of a list called `chosen`. It may not know any source, condition or change.

In words, `{many}` are the elements with condition and change ("even numbers in a list, each doubled"), `{many_}` the
same before more words, `{one}` is one of them without a change, `{best}` follows an adjective that picks one, and
`{none}` says what the result is without elements. In code, `{item}` is an element, `{value}` the changed one, `{test}`
the condition and `{loop}` the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from training.demo.parts import Snippet
from training.demo.tasks.rows import Part, choice, constant, integer

TAKE = "chosen = [{value} {loop}{when}]"

KEPT = ("kept",)
ANY_KEPT = ("kept", "kept", "plain")
CHANGED = ("changed", "both")
EVERY = ("plain", "kept", "changed", "both")

NUMBERS = ("number",)
WORDS = ("word",)
ORDERED = ("number", "word", "character")


@dataclass(frozen=True)
class Aggregate:
    """One row: its words, its code after `first`, and the elements and modes it fits.

    `verb` and `rest` are the plain task sentence and `says` other ones. `plan` ends the sentence "First take ...;
    then ...", unless it is a whole sentence of its own. `modes` say whether there is a condition, a change or both.
    """

    slug: str
    verb: str
    rest: str
    result: str
    plan: str
    returns: str
    code: tuple[str, ...]
    fits: tuple[str, ...] = NUMBERS
    modes: tuple[str, ...] = KEPT
    first: str = TAKE
    says: tuple[tuple[str, str], ...] = ()
    parts: tuple[Part, ...] = ()
    only: tuple[str, ...] = ()
    stem: str = ""
    none: str = ""
    exclude: tuple[str, ...] = ()


MARK = choice("mark spoken", (", ", "a comma and a space"), ("-", "a dash"), (" ", "a space"), ("/", "a slash"))
NONE = ", or None if there is none"


def extreme(adjective: str, noun: str, call: str) -> Aggregate:
    return Aggregate(
        adjective, "find", f"the {adjective} {{best}}{{none}}", f"The {adjective} one, or None for none.",
        f"return the {adjective}", "int | None", (f"return {call}(chosen, default=None)",), modes=EVERY,
        says=(("return", f"the {noun} of the {{many}}{{none}}"),), none=NONE,
    )  # fmt: skip


def by_length(adjective: str, call: str) -> Aggregate:
    return Aggregate(
        adjective, "find", f"the {adjective} {{best}}, the first one on a tie{{none}}",
        f"The {adjective} one, or None for none.", f"return the {adjective}", "str | None",
        (f"return {call}(chosen, key=len, default=None)",), WORDS, EVERY, none=NONE,
    )  # fmt: skip


def running(slug: str, rest: str, says: str, step: str, modes: tuple[str, ...] = ANY_KEPT) -> Aggregate:
    """The result so far, for each element."""
    return Aggregate(
        slug, "return", f"{rest} {{many}}", "A list with the result up to each one.", f"build the {says}", "list[int]",
        ("result = []", "for each in chosen:", f"    result.append({step} if result else each)", "return result"),
        modes=modes, says=(("return", f"a list of the {says} of the {{many}}"),),
    )  # fmt: skip


def neighbours(slug: str, said: str, step: str) -> Aggregate:
    return Aggregate(
        f"neighbour_{slug}", "return", f"the {said} of neighbouring {{many}}",
        f"The {said} of each one and the one before it.", f"list the {said} of neighbours", "list[int]",
        (f"return [{step} for before, after in zip(chosen, chosen[1:])]",), modes=("plain", "kept", "changed"),
    )  # fmt: skip


def check(slug: str, rest: str, says: str, plan: str, code: str) -> Aggregate:
    """A check that looks at the condition alone."""
    return Aggregate(
        slug, "check", f"whether {rest}", f"True if {rest}, otherwise False.", plan, "bool", (f"return {code}",),
        ORDERED, first="", says=(("check", f"whether {says}"),), exclude=("entries", "keys_by_value"),
    )  # fmt: skip


AGGREGATES = (
    Aggregate(
        "count", "count", "the {many}", "The count, 0 for none.", "count them", "int", ("return len(chosen)",),
        ORDERED, ANY_KEPT,
    ),
    Aggregate(
        "count_different", "count", "the different {many}", "The count without repeats.", "count them without repeats",
        "int", ("return len(set(chosen))",), ORDERED, ANY_KEPT, exclude=("entries",),
    ),
    Aggregate(
        "sum", "add up", "the {many}", "The sum, 0 for none.", "add them up", "int", ("return sum(chosen)",),
        modes=EVERY,
    ),
    Aggregate(
        "multiply", "multiply", "the {many}", "The product, 1 for none.", "multiply them", "int",
        ("product = 1", "for each in chosen:", "    product *= each", "return product"), modes=EVERY,
        stem="product",
    ),
    Aggregate(
        "average", "find", "the average of the {many}, or 0 if there are none", "The average, 0 for none.",
        "divide their sum by their count", "float", ("return sum(chosen) / len(chosen) if chosen else 0",), modes=EVERY,
    ),
    Aggregate(
        "spread", "find", "the difference between the largest and the smallest of the {many}, or 0 if there are none",
        "The difference, 0 for none.", "subtract the smallest from the largest", "int",
        ("return max(chosen) - min(chosen) if chosen else 0",), modes=EVERY,
    ),
    extreme("largest", "maximum", "max"),
    extreme("smallest", "minimum", "min"),
    by_length("longest", "max"),
    by_length("shortest", "min"),
    Aggregate(
        "total_length", "add up", "the lengths of the {many}", "The total length, 0 for none.", "add up their lengths",
        "int", ("return sum(len(each) for each in chosen)",), WORDS, ANY_KEPT,
    ),
    Aggregate(
        "greatest_length", "find", "the length of the longest {one}, or 0 if there is none",
        "The greatest length, 0 for none.", "return the greatest of their lengths", "int",
        ("return max((len(each) for each in chosen), default=0)",), WORDS, ANY_KEPT,
    ),
    Aggregate(
        "first", "find", "the first {best}{none}", "The first one, or None.", "return the first", "{type} | None",
        ("return chosen[0] if chosen else None",), ORDERED, ("kept", "kept", "both"), none=NONE, exclude=("entries",),
    ),
    Aggregate(
        "last", "find", "the last {best}{none}", "The last one, or None.", "return the last", "{type} | None",
        ("return chosen[-1] if chosen else None",), ORDERED, ("kept", "kept", "both"), none=NONE, exclude=("entries",),
    ),
    Aggregate(
        "index_of", "find", "the index of the first {one}, or -1 if there is none", "The index, or -1.",
        "First list the indexes of the {taken}; then return the first.",
        "int", ("return indexes[0] if indexes else -1",), ORDERED,
        first="indexes = [index {counted} if {test}]", stem="index",
        says=(("find", "the position, from 0, of the first {one}, or -1 if there is none"),),
    ),
    Aggregate(
        "last_index_of", "find", "the index of the last {one}, or -1 if there is none", "The index, or -1.",
        "First list the indexes of the {taken}; then return the last.",
        "int", ("return indexes[-1] if indexes else -1",), ORDERED,
        first="indexes = [index {counted} if {test}]", stem="index",
    ),
    Aggregate(
        "indexes_of", "list", "the indexes of the {many}", "A list of the indexes.", "List the indexes of the {taken}.",
        "list[int]", ("return indexes",), ORDERED, first="indexes = [index {counted} if {test}]", stem="index",
    ),
    check(
        "any", "any {noun} {place} {is}", "at least one {noun} {place} {is}",
        "Test whether any {noun} {the_place} {is}.",
        "any({test} {loop})",
    ),
    check(
        "all", "every {noun} {place} {is}", "all {nouns} {place} {are}",
        "Test whether every {noun} {the_place} {is}.",
        "all({test} {loop})",
    ),
    check(
        "none", "no {noun} {place} {is}", "none of the {nouns} {place} {is}",
        "Test whether no {noun} {the_place} {is}.",
        "not any({test} {loop})",
    ),
    Aggregate(
        "at_least", "check", "whether at least {limit} of the {nouns} {place} {are}", "True if there are enough.",
        "compare their count with {limit}", "bool", ("return len(chosen) >= {limit}",), ORDERED,
        parts=(integer("limit", 2, 3),), exclude=("entries", "keys_by_value", "range", "multiples"),
    ),
    Aggregate(
        "exactly", "check", "whether exactly {limit} of the {nouns} {place} {are}", "True if the count is right.",
        "compare their count with {limit}", "bool", ("return len(chosen) == {limit}",), ORDERED,
        parts=(integer("limit", 2, 3),), exclude=("entries", "keys_by_value", "range", "multiples"),
    ),
    Aggregate(
        "filter", "return", "{packed}", "The chosen ones.", "{packed_plan}", "{packed_type}", ("return {packed_code}",),
        ORDERED,
    ),
    Aggregate(
        "map", "return", "{packed}", "The changed ones.", "{packed_plan}", "{packed_type}", ("return {packed_code}",),
        ORDERED, ("changed",), exclude=("entries",),
    ),
    Aggregate(
        "filter_map", "return", "{packed}", "The chosen ones, changed.", "{packed_plan}", "{packed_type}",
        ("return {packed_code}",), ORDERED, ("both",), exclude=("entries",),
    ),
    Aggregate(
        "remove", "remove", "the {kept} {from_place}", "What is left.",
        "Take the {nouns} {the_place}, but not those {relative}; then {packed_plan}.", "{packed_type}",
        ("return {packed_code}",), ORDERED, first="chosen = [{item} {loop} if not ({test})]",
        only=("numbers", "words", "parts", "characters", "entries"),
    ),
    Aggregate(
        "replace", "replace", "the {kept} {place} with {k_new}", "All of them, with {k_new} for those replaced.",
        "Take the {nouns} {the_place}, with {k_new} for those {relative}; then {packed_plan}.", "{packed_type}",
        ("return {packed_code}",), first="chosen = [{k_new} if {test} else {item} {loop}]",
        parts=(constant("k_new", 0, 9),), only=("numbers",), stem="replace",
    ),
    Aggregate(
        "mask", "replace", "the {kept} {place} with {mark}", "All of them, with {mark} for those replaced.",
        "Take the {nouns} {the_place}, with {mark} for those {relative}; then {packed_plan}.", "{packed_type}",
        ("return {packed_code}",), ("word", "character"), first="chosen = [{mark} if {test} else {item} {loop}]",
        parts=(choice("mark", *((f"'{mark}'",) for mark in "-_*#+xz?")),), only=("words", "parts", "characters"),
        stem="replace",
    ),
    Aggregate(
        "split", "split", "the {nouns} {place} into those {relative} and the rest", "A tuple of both lists.",
        "Take the {nouns} {the_place} {relative} and, beside them, the rest.", "tuple[list[{type}], list[{type}]]",
        ("rest = [{item} {loop} if not ({test})]", "return chosen, rest"), ORDERED, exclude=("entries",),
        says=(("return", "two lists: the {nouns} {place} {relative}, and the rest"),),
    ),
    Aggregate(
        "join", "join", "the {many} with {spoken}", "One text.", "join them with {spoken}", "str",
        ('return "{mark}".join(chosen)',), WORDS, ANY_KEPT, parts=(MARK,), exclude=("pieces",),
    ),
    Aggregate(
        "join_changed", "join", "the {many_}with {spoken}", "One text.", "join them with {spoken}", "str",
        ('return "{mark}".join(chosen)',), WORDS, CHANGED, parts=(MARK,), exclude=("pieces",), stem="join",
    ),
    Aggregate(
        "sort", "sort", "the {many_}from {order}, as a list", "A sorted list.",
        "sort them from {order}", "list[{type}]",
        ("return sorted(chosen{options})",), modes=EVERY,
        parts=(choice("order options", ("smallest to largest", ""), ("largest to smallest", ", reverse=True")),),
    ),
    Aggregate(
        "sort_by_length", "sort", "the {many_}from {order}, as a list", "A list sorted by length.",
        "sort them from {order}",
        "list[{type}]", ("return sorted(chosen, key=len{options})",), WORDS, EVERY, stem="sort",
        parts=(choice("order options", ("shortest to longest", ""), ("longest to shortest", ", reverse=True")),),
    ),
    Aggregate(
        "dedupe", "return", "a list of the {many_}without repeats", "A list without repeats, in the same order.",
        "drop repeats", "list[{type}]", ("return list(dict.fromkeys(chosen))",), ORDERED, EVERY, exclude=("entries",),
        says=(("return", "each of the {many_}once, as a list"),),
    ),
    Aggregate(
        "reverse", "return", "a list of the {many_}in reverse order", "A list, the last one first.", "reverse them",
        "list[{type}]", ("return chosen[::-1]",), ORDERED, EVERY, exclude=("entries",), stem="backwards",
    ),
    Aggregate(
        "take_first", "return", "a list of the first {limit} of the {many}", "At most {limit} of them.",
        "return the first {limit}", "list[{type}]", ("return chosen[:{limit}]",), ORDERED, EVERY,
        parts=(integer("limit", 2, 5),), exclude=("entries",),
    ),
    Aggregate(
        "take_last", "return", "a list of the last {limit} of the {many}", "At most {limit} of them.",
        "return the last {limit}", "list[{type}]", ("return chosen[-{limit}:]",), ORDERED, EVERY,
        parts=(integer("limit", 2, 5),), exclude=("entries",),
    ),
    Aggregate(
        "frequencies", "count", "how often each {one} appears", "A dictionary to the counts.",
        "count each of them in a dictionary", "dict[{type}, int]",
        ("return {{each: chosen.count(each) for each in chosen}}",), ORDERED, ANY_KEPT, exclude=("entries",),
    ),
    Aggregate(
        "map_to", "map", "the {many} to their {results}", "A dictionary to the {results}.",
        "map each one to its {result}", "dict[int, int]", ("return {{each: {formula:each} for each in chosen}}",),
        modes=ANY_KEPT,
        parts=(
            choice(
                "results result formula",
                ("squares", "square", Snippet("$ * $")),
                ("doubles", "double", Snippet("$ * 2")),
                ("negatives", "negative", Snippet("-$")),
            ),
        ),
    ),
    Aggregate(
        "map_to_lengths", "map", "the {many} to their lengths", "A dictionary to the lengths.",
        "map each one to its length", "dict[str, int]", ("return {{each: len(each) for each in chosen}}",), WORDS,
        ANY_KEPT, stem="lengths",
    ),
    Aggregate(
        "group", "group", "the {many} by their {spoken}", "A dictionary from each {spoken} to a list.",
        "group them by their {spoken}", "dict[int, list[int]]",
        ("groups = {{}}", "for each in chosen:", "    groups.setdefault({key:each}, []).append(each)", "return groups"),
        modes=ANY_KEPT,
        parts=(
            choice(
                "spoken key",
                *((f"remainder modulo {k}", Snippet(f"$ % {k}")) for k in range(2, 8)),
                ("absolute value", Snippet("abs($)")),
            ),
        ),
    ),
    Aggregate(
        "group_words", "group", "the {many} by their {spoken}", "A dictionary from each {spoken} to a list.",
        "group them by their {spoken}", "dict[{key_type}, list[str]]",
        ("groups = {{}}", "for each in chosen:", "    groups.setdefault({key:each}, []).append(each)", "return groups"),
        WORDS, ANY_KEPT, stem="group",
        parts=(
            choice(
                "spoken key key_type",
                ("length", Snippet("len($)"), "int"),
                ("first letter", Snippet("$[:1]"), "str"),
                ("last letter", Snippet("$[-1:]"), "str"),
            ),
        ),
    ),
    running("running_total", "the running totals of the", "running totals", "result[-1] + each"),
    running(
        "running_changed_total", "the running totals of the", "running totals", "result[-1] + each", CHANGED
    ),
    running("running_product", "the running products of the", "running products", "result[-1] * each"),
    running(
        "running_changed_product", "the running products of the", "running products", "result[-1] * each", CHANGED
    ),
    running(
        "running_largest", "the largest {noun} so far for each of the", "running maximums",
        "max(result[-1], each)",
    ),
    running(
        "running_smallest", "the smallest {noun} so far for each of the", "running minimums",
        "min(result[-1], each)",
    ),
    neighbours("differences", "differences", "after - before"),
    neighbours("sums", "sums", "after + before"),
    neighbours("products", "products", "after * before"),
    neighbours("distances", "distances", "abs(after - before)"),
)  # fmt: skip
