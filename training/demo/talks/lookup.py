"""Exercises of copying and looking up, from trivial to hard: lists, pairs, lines and sentences of meaningless words.

What may live here: the exercises and their answers. It may not know passages or how answers are judged.
"""

from __future__ import annotations

from random import Random

from training.demo.talks.lexicon import COLOURS, FOODS, JOBS, THINGS, cities, names, words
from training.demo.talks.questions import REFUSAL, PassageQuestion
from training.demo.talks.talk import listed

Told = tuple[str, PassageQuestion]
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def items(rng: Random, count: int) -> list[str]:
    """Distinct single words of one kind."""
    kind = rng.choice(("words", "words", "names", "cities", "things", "foods", "colours", "jobs", "numbers"))
    if kind == "numbers":
        return [str(number) for number in rng.sample(range(2, 100), count)]
    if kind in ("words", "names", "cities"):
        return {"words": words, "names": names, "cities": cities}[kind](rng, count)
    return rng.sample({"things": THINGS, "foods": FOODS, "colours": COLOURS, "jobs": JOBS}[kind], count)


def rest(options: list[str], *right: str) -> tuple[str, ...]:
    """The competing words; competing numbers are distinguished by the check itself."""
    return tuple(option for option in options if option not in right and not option.isdigit())


def list_text(rng: Random, options: list[str]) -> str:
    return rng.choice(("List: {}", "Here is a list: {}", "Words: {}", "{}")).format(", ".join(options))


def neighbour(rng: Random) -> Told:
    """The word after or before another one."""
    options = items(rng, rng.randint(3, 8))
    index = rng.randrange(len(options) - 1)
    one, other = options[index], options[index + 1]
    if rng.random() < 0.6:
        ask = rng.choice(("Which word comes after {}?", "What comes right after {} in the list?", "What follows {}?"))
        said, right = f"After {one} comes {other}.", other
        ask = ask.format(one)
    else:
        ask = rng.choice(("Which word comes before {}?", "What comes right before {} in the list?"))
        said, right = f"Before {other} comes {one}.", one
        ask = ask.format(other)
    numbers = (one, other) if right.isdigit() else (right,)
    return list_text(rng, options), PassageQuestion(ask, (said,), numbers, rest(options, one, other))


def nth(rng: Random) -> Told:
    """The first, third or last word of a list, counted up to it."""
    options = items(rng, rng.randint(3, 6))
    if rng.random() < 0.2:
        ask = rng.choice(("What is the last word of the list?", "Which word comes last?"))
        return list_text(rng, options), PassageQuestion(ask, (f"The last word is {options[-1]}.",), (options[-1],),
                                                 rest(options, options[-1]))  # fmt: skip
    index = rng.randrange(len(options))
    ask = rng.choice(("What is the {} word of the list?", "Which word comes {} in the list?")).format(ORDINALS[index])
    counted = " ".join(f"{ORDINALS[n].capitalize()}: {option}." for n, option in enumerate(options[: index + 1]))
    said = (counted, f"So the {ORDINALS[index]} word is {options[index]}.")
    return list_text(rng, options), PassageQuestion(ask, said, (options[index],), rest(options, options[index]))


def length(rng: Random) -> Told:
    """How many words a list has, counted one by one."""
    options = items(rng, rng.randint(2, 7))
    ask = rng.choice(("How many words are in the list?", "How long is the list?"))
    counted = " ".join(f"{n}: {option}." for n, option in enumerate(options, 1))
    return list_text(rng, options), PassageQuestion(
        ask, (counted, f"So the number is {len(options)}."), (str(len(options)),)
    )


def member(rng: Random) -> Told:
    """Whether a word is in a list."""
    drawn = items(rng, rng.randint(4, 7))
    options, absent = drawn[:-1], drawn[-1]
    yes = rng.random() < 0.5
    asked = rng.choice(options) if yes else absent
    ask = rng.choice(("Is {} in the list?", "Does the list contain {}?")).format(asked)
    right, wrong = ("yes", "no") if yes else ("no", "yes")
    seen = f"The list {'names' if yes else 'does not name'} {asked}."
    return list_text(rng, options), PassageQuestion(ask, (seen, f"So the answer is {right}."), (right,), (wrong,))


def pairs_text(rng: Random, keys: list[str], values: list[str]) -> str:
    link, gap = rng.choice(((": ", ", "), (" = ", ", "), (": ", "\n"), (" is ", ". "), (" -> ", "\n"), (": ", "; ")))
    text = gap.join(f"{key}{link}{value}" for key, value in zip(keys, values, strict=True))
    return text + "." if gap == ". " else text


def keys_and_values(rng: Random, count: int) -> tuple[list[str], list[str]]:
    keys = words(rng, count) if rng.random() < 0.6 else names(rng, count)
    values = [value for value in items(rng, count) if value not in keys]
    return (keys, values) if len(values) == count else keys_and_values(rng, count)


def pairs(rng: Random) -> Told:
    """Keys and values, written in one of several ways; asked for the value, the key, or what is not there."""
    count = rng.randint(2, 6)
    keys, values = keys_and_values(rng, count + 1)
    text = pairs_text(rng, keys[:count], values[:count])
    index = rng.randrange(count)
    drawn = rng.random()
    if drawn < 0.2:
        ask = rng.choice(("What is {}?", "Which value belongs to {}?")).format(keys[-1])
        ending = f"The text {REFUSAL} what {keys[-1]} is."
        return text, PassageQuestion(ask, (ending,), (REFUSAL,), rest(values[:count]))
    if drawn < 0.45:
        ask = rng.choice(("What stands before {}?", "Which key has the value {}?")).format(values[index])
        ending = f"The key of {values[index]} is {keys[index]}."
        right = (keys[index], values[index]) if values[index].isdigit() else (keys[index],)
        return text, PassageQuestion(ask, (ending,), right, rest(keys[:count], keys[index]))
    ask = rng.choice(("What is {}?", "Which value belongs to {}?", "Look up {}.", "What is said of {}?"))
    ending = f"{keys[index]} is {values[index]}."
    return text, PassageQuestion(
        ask.format(keys[index]), (ending,), (values[index],), rest(values[:count], values[index])
    )


def several_pairs(rng: Random) -> Told:
    """Many look-ups in one answer, which teach more per token than one does: values of keys, or keys of values."""
    count = rng.randint(3, 8)
    keys, values = keys_and_values(rng, count)
    text = pairs_text(rng, keys, values)
    asked = rng.sample(range(count), rng.randint(2, count))
    last = asked[-1]
    if rng.random() < 0.35:
        ask = f"Which keys have the values {listed([values[index] for index in asked])}?"
        said = tuple(f"The key of {values[index]} is {keys[index]}." for index in asked)
        right = (keys[last], values[last]) if values[last].isdigit() else (keys[last],)
        return text, PassageQuestion(ask, said, right, rest(keys, keys[last]))
    ask = rng.choice(("Look up {}.", "Which values belong to {}?", "What are {}?"))
    said = tuple(f"{keys[index]} is {values[index]}." for index in asked)
    ask = ask.format(listed([keys[index] for index in asked]))
    return text, PassageQuestion(ask, said, (values[last],), rest(values, values[last]))


def several_neighbours(rng: Random) -> Told:
    """The words after or before several others."""
    options = items(rng, rng.randint(4, 8))
    asked = rng.sample(range(len(options) - 1), rng.randint(2, len(options) - 2))
    one, other = options[asked[-1]], options[asked[-1] + 1]
    if rng.random() < 0.6:
        ask = f"Which words come after {listed([options[index] for index in asked])}?"
        said, right = tuple(f"After {options[index]} comes {options[index + 1]}." for index in asked), other
    else:
        ask = f"Which words come before {listed([options[index + 1] for index in asked])}?"
        said, right = tuple(f"Before {options[index + 1]} comes {options[index]}." for index in asked), one
    numbers = (one, other) if right.isdigit() else (right,)
    return list_text(rng, options), PassageQuestion(ask, said, numbers, rest(options, one, other))


def line_with(rng: Random) -> Told:
    """The whole line that holds a word."""
    lines = [" ".join(words(rng, rng.randint(3, 5))) for _ in range(rng.randint(2, 5))]
    chosen = rng.choice(lines)
    asked = rng.choice(chosen.split())
    if sum(asked in line.split() for line in lines) > 1:
        return line_with(rng)
    ask = rng.choice(("Which line contains {}?", "Find the line with {}.", "Copy the line that has {} in it."))
    return "\n".join(lines), PassageQuestion(ask.format(asked), (chosen,), (chosen,), rest(lines, chosen))


def chain(rng: Random) -> Told:
    """Two look-ups in a row: the value of a key is the next key."""
    keys = words(rng, 6)
    links = [(keys[0], keys[1]), (keys[1], keys[2]), (keys[3], keys[4]), (keys[4], keys[5])]
    rng.shuffle(links)
    text = ", ".join(f"{one} -> {other}" for one, other in links)
    start = rng.choice((0, 3))
    one, middle, end = keys[start : start + 3]
    ask = f"Where do you end if you start at {one}?"
    said = (f"{one} leads to {middle}.", f"{middle} leads to {end}.", f"So the end is {end}.")
    return text, PassageQuestion(ask, said, (end,), rest(keys, end))


def between(rng: Random) -> Told:
    """The word between two others."""
    options = items(rng, rng.randint(4, 7))
    index = rng.randrange(1, len(options) - 1)
    one, middle, other = options[index - 1 : index + 2]
    ask = f"Which word stands between {one} and {other}?"
    said = (f"After {one} comes {middle}.", f"After {middle} comes {other}.", f"So the answer is {middle}.")
    return list_text(rng, options), PassageQuestion(ask, said, (middle,), rest(options, middle))
