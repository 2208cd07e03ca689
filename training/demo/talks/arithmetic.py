"""Exercises in arithmetic: one operation, several in a row, a chain of changes, numbers in words.

What may live here: sums without a story, and their worked answers. It may not know word problems or how answers are
judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from training.demo.talks.talk import Talk, capital, mixture

TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
SPOKEN = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


@dataclass(frozen=True)
class Operation:
    """One operation on whole numbers that has a whole result of at least zero."""

    left: int
    sign: str
    right: int

    @property
    def result(self) -> int:
        if self.sign == "+":
            return self.left + self.right
        if self.sign == "-":
            return self.left - self.right
        return self.left * self.right if self.sign == "*" else self.left // self.right

    @property
    def asked(self) -> str:
        return f"{self.left} {self.sign} {self.right}"

    @property
    def worked(self) -> str:
        return f"{self.asked} = {self.result}"


def draw(rng: Random) -> Operation:
    """An operation as word problems need it: mostly numbers of one or two digits, at times of three."""
    sign = rng.choice("++--**/")
    if sign in "*/":
        one, other = rng.randint(2, 12), rng.randint(2, rng.choice((10, 12, 25)))
        return Operation(one, "*", other) if sign == "*" else Operation(one * other, "/", one)
    top = rng.choice((20, 60, 100, 200))
    one, other = rng.randint(1, top), rng.randint(1, min(top, 100))
    return Operation(one, "+", other) if sign == "+" else Operation(max(one, other), "-", min(one, other))


def words(number: int) -> str:
    """A number below 200 in words."""
    if number >= 100:
        rest = number % 100
        return "one hundred" + (f" and {words(rest)}" if rest else "")
    if number < 20:
        return SMALL[number]
    return TENS[number // 10] + (f"-{SMALL[number % 10]}" if number % 10 else "")


def single(rng: Random) -> Talk:
    it = draw(rng)
    ask = rng.choice(("What is {}?", "Work out {}.", "{} = ?", "How much is {}?", "Calculate {}."))
    return Talk("", ((ask.format(it.asked), f"{it.worked}"),), (str(it.result),))


def several(rng: Random) -> Talk:
    items = [draw(rng) for _ in range(rng.randint(3, 6))]
    ask = rng.choice(("Work these out: {}.", "Solve each of these: {}.", "What are {}?"))
    answer = "\n".join(item.worked for item in items)
    return Talk("", ((ask.format(", ".join(item.asked for item in items)), answer),), (str(items[-1].result),))


def in_words(rng: Random) -> Talk:
    it = draw(rng)
    while max(it.left, it.right) >= 200:
        it = draw(rng)
    asked = f"{words(it.left)} {SPOKEN[it.sign]} {words(it.right)}"
    ask = rng.choice(("What is {}?", "How much is {}?", "{}?")).format(asked)
    return Talk("", ((capital(ask), it.worked),), (str(it.result),))


def chain(rng: Random) -> Talk:
    """Changes of one number, each named in words, worked out one after another."""
    start = now = rng.randint(2, 60)
    told, worked = [f"Start with {start}."], []
    for _ in range(rng.randint(2, 4)):
        options = [Operation(now, "+", rng.randint(2, 50))]
        if now > 3:
            options.append(Operation(now, "-", rng.randint(1, now - 1)))
        if now <= 30:
            options.append(Operation(now, "*", rng.choice((2, 2, 3, 4, 5))))
        options += [Operation(now, "/", n) for n in (2, 3, 4, 5) if now % n == 0 and now > n]
        step = rng.choice(options)
        told.append(say(step, rng))
        worked.append(f"{step.worked}.")
        now = step.result
    ask = rng.choice(("What do you get?", "Which number is that?", "What is the result?"))
    return Talk("", ((" ".join([*told, ask]), " ".join(worked)),), (str(now),))


def say(step: Operation, rng: Random) -> str:
    n = step.right
    if step.sign == "*" and n == 2:
        return rng.choice(("Double it.", "Multiply it by 2."))
    if step.sign == "/" and n == 2:
        return rng.choice(("Halve it.", "Divide it by 2."))
    return {
        "+": rng.choice((f"Add {n}.", f"Make it {n} more.")),
        "-": rng.choice((f"Take away {n}.", f"Subtract {n}.", f"Make it {n} fewer.")),
        "*": f"Multiply it by {n}.",
        "/": f"Divide it by {n}.",
    }[step.sign]


def comparison(rng: Random) -> Talk:
    one, other = rng.sample(range(2, 150), 2)
    high, low = max(one, other), min(one, other)
    ask = rng.choice(("Which is larger, {} or {}, and by how much?", "How far apart are {} and {}?")).format(one, other)
    return Talk("", ((ask, f"{high} is larger. {Operation(high, '-', low).worked}"),), (str(high - low),))


EXERCISES = mixture(
    {
        "single sum": (single, 3),
        "several sums": (several, 4),
        "sum in words": (in_words, 1),
        "chain": (chain, 3),
        "comparison": (comparison, 1),
    }
)
"""The result of each is the last number of its answer."""
