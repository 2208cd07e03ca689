"""Interchangeable parts of tasks: conditions on an element and transforms of an element, as words and as code.

What may live here: the shared vocabulary that families combine. It may not know any family or layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from training.demo.instance import InstanceDraw


class Coded:
    """Something with a `template` of code: formatting it with a variable, as in `f"{even:number}"`, gives its code."""

    template: str

    def __format__(self, variable: str) -> str:
        return self.template.replace("$", variable)


@dataclass(frozen=True)
class Snippet(Coded):
    """Code alone, in which `$` stands for the variable."""

    template: str


PLURAL_VERBS = {"is": "are", "has": "have", "starts": "start", "ends": "end", "contains": "contain", "does": "do"}


@dataclass(frozen=True)
class Condition(Coded):
    """A test on one element: "even numbers" is `before`, "numbers above 3" is `after`, "is even" is `predicate`.

    `named` stands for the noun and its condition together, as in "vowels". A condition without any of the three, such
    as a pair, is only said by its predicate; `many` is the predicate for several elements.
    """

    slug: str
    before: str
    after: str
    predicate: str
    template: str
    plural: str = ""
    named: str = ""

    @property
    def state(self) -> str:
        return self.predicate.removeprefix("is ")

    @property
    def many(self) -> str:
        verb, _, rest = self.predicate.partition(" ")
        return self.plural or f"{PLURAL_VERBS[verb]} {rest}"

    @property
    def attributive(self) -> bool:
        """Whether it can be written beside the noun."""
        return bool(self.before or self.after or self.named)

    def nouns(self, noun: str) -> str:
        return self.named or f"{self.before}{noun}{self.after}"


def joined(first: Condition, word: str, second: Condition) -> Condition:
    """Both conditions, or either of them, by `word`."""
    return Condition(
        f"{first.slug}_{word}_{second.slug}",
        "",
        "",
        f"{first.predicate} {word} {second.predicate}",
        f"{first.template} {word} {second.template}",
        f"{first.many} {word} {second.many}",
    )


def negated(condition: Condition) -> Condition:
    """The opposite condition."""
    verb, _, rest = condition.predicate.partition(" ")
    plain = PLURAL_VERBS[verb]
    said = f"is not {rest}" if verb == "is" else f"does not {plain} {rest}"
    many = f"are not {condition.many.removeprefix('are ')}" if verb == "is" else f"do not {plain} {rest}"
    return Condition(f"not_{condition.slug}", "", "", said, f"not ({condition.template})", many)


def composed(draw: InstanceDraw, make: Callable[[InstanceDraw], Condition]) -> Condition:
    """A condition as `make` draws it, or its opposite, or two of them joined."""
    drawn = draw.rng.random()
    first = make(draw)
    if drawn < 0.64:
        return first
    if drawn < 0.72:
        while first.slug == "not":
            first = make(draw)
        return negated(first)
    second = make(draw)
    while second.slug == first.slug:
        second = make(draw)
    return joined(first, "and" if drawn < 0.86 else "or", second)


@dataclass(frozen=True)
class Transform(Coded):
    """A change of one element: `participle` completes "each number ..."; `template` is the expression."""

    slug: str
    participle: str
    template: str


def number_condition(draw: InstanceDraw) -> Condition:
    kind = draw.rng.randrange(13)
    if kind == 11:
        d = draw.constant(1, 9)
        return Condition("ending", "", f" ending in the digit {d}", f"ends in the digit {d}", f"abs($) % 10 == {d}")
    if kind == 12:
        k = draw.constant(1, 20)
        return Condition("equal", "", f" equal to {k}", f"is equal to {k}", f"$ == {k}")
    if kind == 0:
        return Condition("even", "even ", "", "is even", "$ % 2 == 0")
    if kind == 1:
        return Condition("odd", "odd ", "", "is odd", "$ % 2 == 1")
    if kind == 2:
        return Condition("positive", "positive ", "", "is positive", "$ > 0")
    if kind == 3:
        return Condition("negative", "negative ", "", "is negative", "$ < 0")
    if kind == 4:
        k = draw.constant(3, 9)
        return Condition("divisible", "", f" divisible by {k}", f"is divisible by {k}", f"$ % {k} == 0")
    if kind == 5:
        low = draw.constant(0, 9)
        high = draw.constant(low + 2, low + 10)
        words = f"between {low} and {high}"
        return Condition("between", "", f" {words}", f"is {words}", f"{low} <= $ <= {high}")
    k = draw.constant(1, 20)
    slug, words, sign = draw.pick(
        (
            ("above", "greater than", ">"),
            ("below", "less than", "<"),
            ("at_least", "of at least", ">="),
            ("at_most", "of at most", "<="),
            ("not", "not equal to", "!="),
        )
    )
    predicate = words.removeprefix("of ")
    return Condition(slug, "", f" {words} {k}", f"is {predicate} {k}", f"$ {sign} {k}")


def natural_condition(draw: InstanceDraw) -> Condition:
    """A condition that is worth a test on numbers that are never negative."""
    chosen = number_condition(draw)
    while chosen.slug in ("positive", "negative"):
        chosen = number_condition(draw)
    return chosen


def word_condition(draw: InstanceDraw) -> Condition:
    kind = draw.rng.randrange(9)
    if kind == 8:
        return Condition("palindrome", "", "", "is the same backwards", "$ == $[::-1]")
    if kind < 3:
        k = draw.constant(2, 6)
        slug, words, sign = draw.pick(
            (("longer", "longer than", ">"), ("shorter", "shorter than", "<"), ("length", "of exactly", "=="))
        )
        if sign == "==":
            return Condition(slug, "", f" of length {k}", f"has length {k}", f"len($) == {k}")
        return Condition(slug, "", f" {words} {k} characters", f"is {words} {k} characters", f"len($) {sign} {k}")
    if kind == 6:
        return Condition("uppercase", "upper case ", "", "is in upper case", "$.isupper()")
    if kind == 7:
        return Condition("lowercase", "lower case ", "", "is in lower case", "$.islower()")
    c = draw.letter()
    if kind == 3:
        return Condition("starting", "", f" starting with '{c}'", f"starts with '{c}'", f"$.startswith('{c}')")
    if kind == 4:
        return Condition("ending", "", f" ending with '{c}'", f"ends with '{c}'", f"$.endswith('{c}')")
    return Condition("containing", "", f" containing '{c}'", f"contains '{c}'", f"'{c}' in $")


CHARACTER_KINDS = (
    ("vowels", "vowel", "a vowel", '$.lower() in "aeiou"'),
    ("digits", "digit", "a digit", "$.isdigit()"),
    ("spaces", "space", "a space", '$ == " "'),
    ("upper case letters", "capital", "an upper case letter", "$.isupper()"),
    ("lower case letters", "lower", "a lower case letter", "$.islower()"),
    ("letters", "letter", "a letter", "$.isalpha()"),
)


def vowel_condition(draw: InstanceDraw) -> Condition:
    return character_kind(0)


def character_kind(index: int) -> Condition:
    nouns, slug, one, template = CHARACTER_KINDS[index]
    return Condition(slug, "", "", f"is {one}", template, f"are {nouns}", nouns)


def character_condition(draw: InstanceDraw) -> Condition:
    """A kind of characters or one letter."""
    return character_kind(0) if draw.rng.random() < 0.14 else other_character_condition(draw)


def other_character_condition(draw: InstanceDraw) -> Condition:
    """A kind of characters other than vowels, or one letter."""
    kind = draw.rng.randrange(1, 8)
    if kind < len(CHARACTER_KINDS):
        return character_kind(kind)
    c = draw.letter()
    return Condition(c, "", "", f"is equal to '{c}'", f"$ == '{c}'", named=f"letters '{c}'")


def number_transform(draw: InstanceDraw) -> Transform:
    kind = draw.rng.randrange(9)
    k = draw.constant(2, 12)
    return (
        Transform("double", "doubled", "$ * 2"),
        Transform("square", "squared", "$ * $"),
        Transform("negate", "negated", "-$"),
        Transform("increase", f"increased by {k}", f"$ + {k}"),
        Transform("reduce", f"reduced by {k}", f"$ - {k}"),
        Transform("multiply", f"multiplied by {k}", f"$ * {k}"),
        Transform("absolute", "replaced by its absolute value", "abs($)"),
        Transform("halve", "halved with integer division", "$ // 2"),
        Transform("remainder", f"replaced by its remainder modulo {k}", f"$ % {k}"),
    )[kind]


def character_transform(draw: InstanceDraw) -> Transform:
    k = draw.rng.randint(2, 4)
    c = draw.pick("!?-_*#")
    chosen: Transform = draw.pick(
        (
            Transform("upper", "in upper case", "$.upper()"),
            Transform("lower", "in lower case", "$.lower()"),
            Transform("repeat", f"repeated {k} times", f"$ * {k}"),
            Transform("suffix", f"followed by '{c}'", f"$ + '{c}'"),
            Transform("prefix", f"preceded by '{c}'", f"'{c}' + $"),
        )
    )
    return chosen


def word_transform(draw: InstanceDraw) -> Transform:
    kind = draw.rng.randrange(9)
    k = draw.rng.randint(2, 4)
    c = draw.pick("!?-_*#")
    return (
        Transform("upper", "in upper case", "$.upper()"),
        Transform("lower", "in lower case", "$.lower()"),
        Transform("reverse", "reversed", "$[::-1]"),
        Transform("capitalize", "capitalized", "$.capitalize()"),
        Transform("repeat", f"repeated {k} times", f"$ * {k}"),
        Transform("suffix", f"followed by '{c}'", f"$ + '{c}'"),
        Transform("prefix", f"preceded by '{c}'", f"'{c}' + $"),
        Transform("shorten", f"cut to {k} characters", f"$[:{k}]"),
        Transform("behead", "without its first character", "$[1:]"),
    )[kind]
