"""Exercises of editing: copy, reverse, replace, sort and filter lists of words and numbers.

What may live here: the edits and the working that they need. It may not know texts in whole sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training.demo.talks.lexicon import word, words
from training.demo.talks.lookup import items
from training.demo.talks.talk import Talk


def answered(rng: Random, ask: str, text: str, answer: str, working: str = "") -> Talk:
    prompt = rng.choice((f"{ask}\n\n{text}", f"{ask} {text}", f"{text}\n\n{ask}", f"{ask}\n{text}"))
    whole = f"{working}\n\n{answer}" if working else answer
    return Talk("", ((prompt, whole),), (answer,))


def copy(rng: Random) -> Talk:
    """The same words again."""
    ask = rng.choice(("Repeat this.", "Copy this text, word for word.", "Say exactly this again.", "Repeat after me."))
    if rng.random() < 0.5:
        text = ", ".join(items(rng, rng.randint(2, 9)))
    else:
        text = " ".join(words(rng, rng.randint(2, 8))).capitalize() + "."
    return answered(rng, ask, text, text)


def reverse(rng: Random) -> Talk:
    options = items(rng, rng.randint(2, 6))
    ask = rng.choice(("Reverse the order of this list.", "Write this list from back to front."))
    return answered(rng, ask, ", ".join(options), ", ".join(reversed(options)))


def lines(rng: Random) -> Talk:
    """One word a line, with bullets or numbers, or back to one line."""
    options = items(rng, rng.randint(2, 6))
    flat = ", ".join(options)
    bullets = "\n".join(f"- {option}" for option in options)
    numbered = "\n".join(f"{n}. {option}" for n, option in enumerate(options, 1))
    ask, text, answer = rng.choice(
        (
            ("Write this as a bullet list.", flat, bullets),
            ("Number these words, one in each line.", flat, numbered),
            ("Write these lines as one line with commas.", bullets, flat),
            ("Replace the bullets by numbers.", bullets, numbered),
            ("Put each word on a line of its own.", flat, "\n".join(options)),
        )
    )
    return answered(rng, ask, text, answer)


def replace(rng: Random) -> Talk:
    """Another word in place of one, or one word gone, or one more."""
    options = items(rng, rng.randint(3, 6))
    index = rng.randrange(len(options))
    new = word(rng)
    kind = rng.choice(("replace", "remove", "add", "swap"))
    text = ", ".join(options)
    if kind == "replace":
        ask, wanted = f"Replace {options[index]} by {new}.", [*options[:index], new, *options[index + 1 :]]
    elif kind == "remove":
        ask, wanted = f"Remove {options[index]} from this list.", options[:index] + options[index + 1 :]
    elif kind == "add":
        ask, wanted = f"Add {new} at the end of this list.", [*options, new]
    else:
        ask, wanted = "Swap the first and the last word.", [options[-1], *options[1:-1], options[0]]
    return answered(rng, ask, text, ", ".join(wanted))


def sort_numbers(rng: Random) -> Talk:
    """Two to five numbers in order."""
    numbers = rng.sample(range(1, 100), rng.randint(2, 5))
    down = rng.random() < 0.5
    ask = "Sort these numbers, highest first." if down else "Sort these numbers, lowest first."
    ordered = sorted(numbers, reverse=down)
    return answered(rng, ask, ", ".join(map(str, numbers)), ", ".join(map(str, ordered)))


def filter_numbers(rng: Random) -> Talk:
    """The numbers above or below a bound, each compared before."""
    numbers = rng.sample(range(1, 100), rng.randint(3, 5))
    low, high = sorted(rng.sample(numbers, 2))
    bound = rng.randint(low, high - 1)
    ask = f"Keep only the numbers above {bound}."
    working = " ".join(f"{n} is {'more' if n > bound else 'not more'} than {bound}." for n in numbers)
    kept = ", ".join(str(n) for n in numbers if n > bound)
    return answered(rng, ask, ", ".join(map(str, numbers)), kept, working)


def sort_rows(rng: Random) -> Talk:
    """Lines of a word and a number, by the number."""
    count = rng.randint(2, 4)
    rows = list(zip(words(rng, count), rng.sample(range(1, 100), count), strict=True))
    down = rng.random() < 0.5
    ordered = sorted(rows, key=lambda row: row[1], reverse=down)
    ask = f"Sort these lines by the number, {'highest' if down else 'lowest'} first."
    working = f"Order: {', '.join(str(number) for _, number in ordered)}."
    text, answer = ("\n".join(f"{key}: {number}" for key, number in found) for found in (rows, ordered))
    return answered(rng, ask, text, answer, working)


def reversed_lines(rng: Random) -> Talk:
    """Two edits at once: from back to front, and as bullets."""
    options = items(rng, rng.randint(2, 5))
    answer = "\n".join(f"- {option}" for option in reversed(options))
    return answered(rng, "Write this list from back to front as a bullet list.", ", ".join(options), answer)


def replaced_and_reversed(rng: Random) -> Talk:
    """Two edits at once: one word replaced, then from back to front."""
    options = items(rng, rng.randint(2, 5))
    index, new = rng.randrange(len(options)), word(rng)
    changed = [*options[:index], new, *options[index + 1 :]]
    ask = f"Replace {options[index]} by {new} and reverse the order of the list."
    return answered(rng, ask, ", ".join(options), ", ".join(reversed(changed)), f"Replaced: {', '.join(changed)}")


EDITS: dict[str, Callable[[Random], Talk]] = {
    "copy": copy,
    "reverse": reverse,
    "lines": lines,
    "replace": replace,
    "sort numbers": sort_numbers,
    "filter numbers": filter_numbers,
    "sort rows": sort_rows,
    "replace and reverse": replaced_and_reversed,
}
