"""Families over a list of strings: select, count, map, search, join. Knows parts and draws, no layout."""

from __future__ import annotations

from training.demo.instance import Draw, Parameter, Sketch
from training.demo.parts import Condition, word_condition, word_transform
from training.demo.registry import family


def sketch(
    draw: Draw,
    words: Parameter,
    stems: tuple[str, ...],
    returns: str,
    verb: str,
    rest: str,
    result: str,
    body: tuple[str, ...],
    how: str,
    empty: bool = True,
) -> Sketch:
    """A sketch with one list of strings; `empty` adds the empty list to its tests."""
    alone = tuple(([word],) for word in draw.telling_words())
    return Sketch(
        draw.name(*stems),
        (words,),
        returns,
        verb,
        rest,
        result,
        body,
        how,
        (draw.pick((["apple", "fig", "Pear"], ["red", "GREEN", "blue"], ["one", "three", "ten"])),),
        draw.cases(lambda: (draw.word_list(),), extra=(*alone, ([],)) if empty else alone),
    )


def parts(draw: Draw) -> tuple[Parameter, str, Condition]:
    words = draw.parameter("word_list")
    return words, words.each, word_condition(draw)


@family
def filter_words(draw: Draw) -> Sketch:
    words, each, keep = parts(draw)
    return sketch(
        draw,
        words,
        (f"filter_{keep.slug}", f"keep_{keep.slug}", f"select_{keep.slug}"),
        "list[str]",
        "return",
        f"the {keep.nouns('words')} in a list",
        f"A list with the {keep.nouns('words')}.",
        (
            "result = []",
            f"for {each} in {words.name}:",
            f"    if {keep.code(each)}:",
            f"        result.append({each})",
            "return result",
        ),
        f"It goes through the list and keeps each word that {keep.predicate}.",
    )


@family
def remove_words(draw: Draw) -> Sketch:
    words, each, drop = parts(draw)
    return sketch(
        draw,
        words,
        (f"remove_{drop.slug}", f"drop_{drop.slug}", f"without_{drop.slug}"),
        "list[str]",
        "remove",
        f"the {drop.nouns('words')} from a list",
        f"A list without the {drop.nouns('words')}.",
        (
            "result = []",
            f"for {each} in {words.name}:",
            f"    if not ({drop.code(each)}):",
            f"        result.append({each})",
            "return result",
        ),
        f"It goes through the list and skips each word that {drop.predicate}.",
    )


@family
def count_words(draw: Draw) -> Sketch:
    words, each, keep = parts(draw)
    return sketch(
        draw,
        words,
        (f"count_{keep.slug}", f"number_of_{keep.slug}"),
        "int",
        "count",
        f"the {keep.nouns('words')} in a list",
        f"The number of {keep.nouns('words')}.",
        (
            "count = 0",
            f"for {each} in {words.name}:",
            f"    if {keep.code(each)}:",
            "        count += 1",
            "return count",
        ),
        f"It adds one to the count for each word that {keep.predicate}.",
    )


@family
def map_words(draw: Draw) -> Sketch:
    words = draw.parameter("word_list")
    each, change = words.each, word_transform(draw)
    return sketch(
        draw,
        words,
        (f"{change.slug}_all", f"{change.slug}_words", f"{change.slug}_each"),
        "list[str]",
        "return",
        f"a list with each word {change.participle}",
        f"A list with each word {change.participle}.",
        (
            "result = []",
            f"for {each} in {words.name}:",
            f"    result.append({change.code(each)})",
            "return result",
        ),
        f"It builds a new list with each word {change.participle}.",
    )


@family
def filter_map_words(draw: Draw) -> Sketch:
    words, each, keep = parts(draw)
    change = word_transform(draw)
    return sketch(
        draw,
        words,
        (f"{change.slug}_{keep.slug}", f"{keep.slug}_{change.slug}"),
        "list[str]",
        "return",
        f"the {keep.nouns('words')} in a list, each {change.participle}",
        f"The {keep.nouns('words')}, each {change.participle}.",
        (
            "result = []",
            f"for {each} in {words.name}:",
            f"    if {keep.code(each)}:",
            f"        result.append({change.code(each)})",
            "return result",
        ),
        f"It keeps each word that {keep.predicate} and adds it {change.participle}.",
    )


@family
def any_word(draw: Draw) -> Sketch:
    words, each, seek = parts(draw)
    return sketch(
        draw,
        words,
        (f"has_{seek.slug}", f"any_{seek.slug}"),
        "bool",
        "check",
        f"whether any word in a list {seek.predicate}",
        f"True if any word {seek.predicate}, otherwise False.",
        (f"for {each} in {words.name}:", f"    if {seek.code(each)}:", "        return True", "return False"),
        f"It stops at the first word that {seek.predicate}.",
    )


@family
def all_words(draw: Draw) -> Sketch:
    words, each, seek = parts(draw)
    return sketch(
        draw,
        words,
        (f"all_{seek.slug}", f"only_{seek.slug}"),
        "bool",
        "check",
        f"whether every word in a list {seek.predicate}",
        f"True if every word {seek.predicate}, otherwise False.",
        (f"for {each} in {words.name}:", f"    if not ({seek.code(each)}):", "        return False", "return True"),
        "It stops at the first word that fails the check.",
    )


@family
def first_word(draw: Draw) -> Sketch:
    words, each, seek = parts(draw)
    return sketch(
        draw,
        words,
        (f"first_{seek.slug}", f"find_{seek.slug}"),
        "str | None",
        "find",
        f"the first word in a list that {seek.predicate}, or None if there is none",
        f"The first word that {seek.predicate}, or None.",
        (f"for {each} in {words.name}:", f"    if {seek.code(each)}:", f"        return {each}", "return None"),
        f"It returns the first word that {seek.predicate}, and None at the end.",
    )


@family
def index_of_word(draw: Draw) -> Sketch:
    words, each, seek = parts(draw)
    return sketch(
        draw,
        words,
        (f"index_of_{seek.slug}", f"locate_{seek.slug}"),
        "int",
        "find",
        f"the index of the first word in a list that {seek.predicate}, or -1 if there is none",
        f"The index of the first word that {seek.predicate}, or -1.",
        (
            f"for index, {each} in enumerate({words.name}):",
            f"    if {seek.code(each)}:",
            "        return index",
            "return -1",
        ),
        f"It counts positions with enumerate and stops at the first word that {seek.predicate}.",
    )


@family
def join_words(draw: Draw) -> Sketch:
    words, each, keep = parts(draw)
    mark, spoken = draw.pick(((", ", "a comma and a space"), ("-", "a dash"), (" ", "a space"), ("/", "a slash")))
    return sketch(
        draw,
        words,
        (f"join_{keep.slug}", f"merge_{keep.slug}"),
        "str",
        "join",
        f"the {keep.nouns('words')} in a list with {spoken}",
        f"One string with the {keep.nouns('words')}.",
        (
            "chosen = []",
            f"for {each} in {words.name}:",
            f"    if {keep.code(each)}:",
            f"        chosen.append({each})",
            f'return "{mark}".join(chosen)',
        ),
        f"It collects each word that {keep.predicate} and joins them with {spoken}.",
    )


@family
def join_changed_words(draw: Draw) -> Sketch:
    words = draw.parameter("word_list")
    each, change = words.each, word_transform(draw)
    mark, spoken = draw.pick(((", ", "a comma and a space"), ("-", "a dash"), (" ", "a space"), ("/", "a slash")))
    return sketch(
        draw,
        words,
        (f"join_{change.slug}", f"merge_{change.slug}"),
        "str",
        "join",
        f"the words in a list, each {change.participle}, with {spoken}",
        f"One string with each word {change.participle}.",
        (
            "chosen = []",
            f"for {each} in {words.name}:",
            f"    chosen.append({change.code(each)})",
            f'return "{mark}".join(chosen)',
        ),
        f"It collects each word {change.participle} and joins them with {spoken}.",
    )


def extreme(draw: Draw, adjective: str, sign: str) -> Sketch:
    words = draw.parameter("word_list")
    each = words.each
    return sketch(
        draw,
        words,
        (f"{adjective}_word", f"find_{adjective}"),
        "str",
        "find",
        f"the {adjective} word in a list, taking the first one on a tie",
        f"The {adjective} word.",
        (
            f"best = {words.name}[0]",
            f"for {each} in {words.name}:",
            f"    if len({each}) {sign} len(best):",
            f"        best = {each}",
            "return best",
        ),
        f"It remembers the {adjective} word so far.",
        empty=False,
    )


@family
def longest_word(draw: Draw) -> Sketch:
    return extreme(draw, "longest", ">")


@family
def shortest_word(draw: Draw) -> Sketch:
    return extreme(draw, "shortest", "<")


@family
def total_word_length(draw: Draw) -> Sketch:
    words, each, keep = parts(draw)
    return sketch(
        draw,
        words,
        (f"total_length_{keep.slug}", f"letters_in_{keep.slug}"),
        "int",
        "add up",
        f"the lengths of the {keep.nouns('words')} in a list",
        f"The total length of the {keep.nouns('words')}.",
        (
            "total = 0",
            f"for {each} in {words.name}:",
            f"    if {keep.code(each)}:",
            f"        total += len({each})",
            "return total",
        ),
        f"It adds the length of each word that {keep.predicate} to the total.",
    )


@family
def group_words(draw: Draw) -> Sketch:
    words = draw.parameter("word_list")
    each = words.each
    slug, spoken, key, kind = draw.pick(
        (
            ("length", "length", f"len({each})", "int"),
            ("first_letter", "first letter", f"{each}[0]", "str"),
            ("last_letter", "last letter", f"{each}[-1]", "str"),
        )
    )
    return sketch(
        draw,
        words,
        (f"group_by_{slug}", f"groups_by_{slug}"),
        f"dict[{kind}, list[str]]",
        "group",
        f"the words in a list by their {spoken}",
        f"A dictionary from each {spoken} to its words.",
        (
            "groups = {}",
            f"for {each} in {words.name}:",
            f"    key = {key}",
            "    if key not in groups:",
            "        groups[key] = []",
            f"    groups[key].append({each})",
            "return groups",
        ),
        f"It adds each word to the list of its {spoken}.",
    )


@family
def word_lengths(draw: Draw) -> Sketch:
    words, each, keep = parts(draw)
    return sketch(
        draw,
        words,
        (f"lengths_{keep.slug}", f"length_map_{keep.slug}"),
        "dict[str, int]",
        "map",
        f"the {keep.nouns('words')} in a list to their lengths",
        f"A dictionary from the {keep.nouns('words')} to their lengths.",
        (
            "result = {}",
            f"for {each} in {words.name}:",
            f"    if {keep.code(each)}:",
            f"        result[{each}] = len({each})",
            "return result",
        ),
        f"It stores the length of each word that {keep.predicate}.",
    )
