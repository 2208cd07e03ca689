"""Texts about somebody's day, retold by another person or in another tense, as a list, or with other words in them.

What may live here: the sentences and how they change. It may not know records or how answers are judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.demo.talks.lexicon import COLOURS, FOODS, PLACES, PORTABLE, Person, people
from training.demo.talks.talk import Talk, capital

# The plain form, the third person and the past; what follows the verb is the same in each.
DEEDS = (
    ("wake up", "wakes up", "woke up", "at {hour}"),
    ("eat", "eats", "ate", "{food} for breakfast"),
    ("walk", "walks", "walked", "to the {place}"),
    ("take", "takes", "took", "{their} {colour} {thing}"),
    ("meet", "meets", "met", "{friend} at the {place}"),
    ("buy", "buys", "bought", "{food} and a new {thing}"),
    ("write", "writes", "wrote", "a letter to {friend}"),
    ("clean", "cleans", "cleaned", "{their} room"),
    ("call", "calls", "called", "{their} mother"),
    ("play", "plays", "played", "cards with {friend}"),
    ("work", "works", "worked", "in the {place} until {hour}"),
    ("cook", "cooks", "cooked", "{food} with {their} sister"),
    ("ride", "rides", "rode", "{their} bicycle to the {place}"),
    ("lose", "loses", "lost", "{their} keys in the {place}"),
    ("find", "finds", "found", "a {colour} coin"),
    ("read", "reads", "read", "a book about {food}"),
    ("sing", "sings", "sang", "a song for {friend}"),
    ("go", "goes", "went", "home at {hour}"),
    ("paint", "paints", "painted", "{their} door {colour}"),
    ("give", "gives", "gave", "{friend} some {food}"),
    ("drive", "drives", "drove", "to the {place} at {hour}"),
    ("sell", "sells", "sold", "{their} old {thing}"),
    ("see", "sees", "saw", "{friend} in the {place}"),
    ("bring", "brings", "brought", "{friend} a {colour} {thing}"),
    ("forget", "forgets", "forgot", "{their} {thing} in the {place}"),
    ("sit", "sits", "sat", "in the {place} with {friend}"),
    ("run", "runs", "ran", "to the {place}"),
    ("wash", "washes", "washed", "{their} {colour} {thing}"),
    ("watch", "watches", "watched", "a film with {friend}"),
    ("carry", "carries", "carried", "{their} {thing} to the {place}"),
    ("study", "studies", "studied", "in the {place}"),
    ("open", "opens", "opened", "the window at {hour}"),
    ("close", "closes", "closed", "the door of the {place}"),
    ("visit", "visits", "visited", "{their} brother at {hour}"),
    ("help", "helps", "helped", "{friend} in the {place}"),
    ("draw", "draws", "drew", "a {colour} {thing}"),
    ("break", "breaks", "broke", "{their} {thing}"),
    ("wear", "wears", "wore", "a {colour} coat"),
    ("send", "sends", "sent", "a {thing} to {friend}"),
    ("begin", "begins", "began", "{their} work at {hour}"),
    ("drink", "drinks", "drank", "tea with {friend}"),
    ("wait", "waits", "waited", "at the {place} until {hour}"),
)
SPOTS = tuple(place for place in PLACES if place not in ("beach", "farm", "forest", "lake", "tower"))
HOURS = ("five", "six", "seven", "eight", "nine", "ten", "eleven", "noon")
OPENERS = ("", "", "Then ", "After that, ", "Later ", "Soon ")
FIRST, THIRD = "first", "third"
PRESENT, PAST, FUTURE = "present", "past", "future"
Voice = tuple[str, str]
VOICES: tuple[Voice, ...] = tuple((who, when) for who in (FIRST, THIRD) for when in (PRESENT, PAST, FUTURE))


@dataclass(frozen=True)
class Clause:
    """One action of a text: how its sentence opens, its verb forms and what follows, with a slot for "their"."""

    opener: str
    forms: tuple[str, str, str]
    rest: str

    def verb(self, voice: Voice) -> str:
        plain, third, past = self.forms
        who, when = voice
        return {PRESENT: plain if who == FIRST else third, PAST: past, FUTURE: f"will {plain}"}[when]


def draw_day(rng: Random) -> tuple[Person, list[Clause]]:
    """Two to five actions of one person."""
    hero, friend = people(rng, 2)
    clauses = []
    for number, (*forms, rest) in enumerate(rng.sample(DEEDS, rng.choice((2, 3, 3, 4, 4)))):
        filled = rest.format(
            hour=rng.choice(HOURS), food=rng.choice(FOODS), place=rng.choice(SPOTS), friend=friend.name,
            thing=rng.choice(PORTABLE), colour=rng.choice(COLOURS), their="{their}",
        )  # fmt: skip
        filled = filled.replace("a orange", "an orange").replace("a umbrella", "an umbrella")
        clauses.append(Clause(rng.choice(OPENERS) if number else "", (forms[0], forms[1], forms[2]), filled))
    return hero, clauses


def render(hero: Person, clauses: list[Clause], voice: Voice) -> str:
    sentences = []
    for number, clause in enumerate(clauses):
        first = voice[0] == FIRST
        who = "I" if first else hero.they if number else hero.name
        rest = clause.rest.format(their="my" if first else hero.their)
        sentences.append(f"{capital(clause.opener + who)} {clause.verb(voice)} {rest}.")
    return " ".join(sentences)


def steps_of(hero: Person, clauses: list[Clause], voice: Voice) -> str:
    """A numbered list of what the hero does, without the hero."""
    own = "my" if voice[0] == FIRST else hero.their
    return "\n".join(
        f"{n}. {capital(clause.verb(voice))} {clause.rest.format(their=own)}." for n, clause in enumerate(clauses, 1)
    )


def placed(rng: Random, ask: str, text: str) -> str:
    return rng.choice((f"{ask}\n\n{text}", f"{text}\n\n{ask}", f"{ask} {text}", f"{ask}\nText: {text}"))


def make_change(changes: tuple[tuple[Voice, Voice], ...]) -> Callable[[Random], Talk]:
    """From one voice to another. Where the text does not say who is meant, the prompt does, with the pronoun."""

    def make(rng: Random) -> Talk:
        source, wanted = rng.choice(changes)
        hero, clauses = draw_day(rng)
        wishes = []
        if source[0] != wanted[0]:
            wishes.append(
                "in the first person" if wanted[0] == FIRST else f"in the third person, about {hero.name} ({hero.they})"
            )
        if source[1] != wanted[1]:
            wishes.insert(
                0, {PRESENT: "in the present tense", PAST: "in the past tense", FUTURE: "in the future"}[wanted[1]]
            )
        ask = rng.choice(("Rewrite this text {}.", "Put this {}.", "Tell this {}.", "Please write the text {}."))
        answer = render(hero, clauses, wanted)
        prompt = placed(rng, ask.format(" and ".join(wishes)), render(hero, clauses, source))
        return Talk("", ((prompt, answer),), (answer,))

    return make


ONE_CHANGE = tuple((one, other) for one in VOICES for other in VOICES if (one[0] != other[0]) != (one[1] != other[1]))
BOTH_CHANGES = tuple((one, other) for one in VOICES for other in VOICES if one[0] != other[0] and one[1] != other[1])
HELD_OUT_CHANGES = (((FIRST, PRESENT), (THIRD, PAST)), ((THIRD, FUTURE), (FIRST, PRESENT)))
TRAINED_CHANGES = tuple(change for change in BOTH_CHANGES if change not in HELD_OUT_CHANGES)


def make_list(*voices: Voice) -> Callable[[Random], Talk]:
    """The actions as a numbered list."""

    def make(rng: Random) -> Talk:
        voice = rng.choice(voices)
        hero, clauses = draw_day(rng)
        ask = rng.choice(("List the steps in this text.", "Turn this into a numbered list without names.",
                          "Make a numbered list of the deeds in this text."))  # fmt: skip
        answer = steps_of(hero, clauses, voice)
        return Talk("", ((placed(rng, ask, render(hero, clauses, voice)), answer),), (answer,))

    return make


def other_name(rng: Random) -> Talk:
    """The same text about somebody else, whose pronouns may differ."""
    voice = (THIRD, rng.choice((PRESENT, PAST)))
    hero, clauses = draw_day(rng)
    other = people(rng, 1)[0]
    if other.name in render(hero, clauses, voice):
        return other_name(rng)
    ask = rng.choice(("Write {o} ({t}) instead of {n}.", "Tell the same about {o} ({t}) instead of {n}."))
    answer = render(other, clauses, voice)
    prompt = placed(rng, ask.format(o=other.name, t=other.they, n=hero.name), render(hero, clauses, voice))
    return Talk("", ((prompt, answer),), (answer,))


def one_sentence(rng: Random) -> Talk:
    """One sentence of the text, by its number or by a word in it, or all but one."""
    voice = rng.choice(VOICES)
    hero, clauses = draw_day(rng)
    text = render(hero, clauses, voice)
    sentences = [part.rstrip(".") + "." for part in text.split(". ")]
    number = rng.randrange(len(sentences))
    word = ("first", "second", "third", "fourth", "fifth")[number]
    kind = rng.choice(("copy", "leave out", "swap"))
    if kind == "copy":
        ask, answer = f"Copy only the {word} sentence.", sentences[number]
    elif kind == "leave out":
        ask = f"Leave out the {word} sentence."
        answer = " ".join(sentences[:number] + sentences[number + 1 :])
    else:
        ask = "Move the last sentence to the beginning."
        answer = " ".join([sentences[-1], *sentences[:-1]])
    return Talk("", ((placed(rng, ask, text), answer),), (answer,))
