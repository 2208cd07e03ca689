"""The scenes of reading passages: kinds of things with facts, several sentence shapes for each fact, and questions.

What may live here: the tables of scenes and fields. It may not know how passages are laid out or which questions exist.

Slots: {s} the subject, {p} its possessive, {v} the value, {a} the value with its article, {o} another subject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.demo.talks.lexicon import (
    COLOURS,
    COUNTED,
    DAYS,
    FOODS,
    HOBBIES,
    JOBS,
    PETS,
    PLACES,
    ROOMS,
    THINGS,
    cities,
    names,
    people,
)

Values = Callable[[Random, int], list[str]]


@dataclass(frozen=True)
class NumberQuestions:
    """Questions about the numbers of a field: who has more, whether {s} has more than {o}, who has most and least, by
    how much {s} exceeds {o}, and who has more than {v}."""

    who_more: str
    is_more: str
    most: str
    least: str
    gap: str
    above: str


@dataclass(frozen=True)
class FactKind:
    """One kind of fact. `said` is how answers put it, `shapes` how passages do, `unsaid` follows "The text does not
    say", `which` names the one that has the value and `reverse` asks for it (the first of
    them so that it can also follow "does not say"), `many` asks how many have it."""

    name: str
    values: Values
    said: str
    shapes: tuple[str, ...]
    asks: tuple[str, ...]
    unsaid: str
    which: str
    reverse: tuple[str, ...]
    yes: str
    same: str
    many: str
    order: NumberQuestions | None = None


@dataclass(frozen=True)
class PassageSubject:
    """One entity of a passage: what it is called, and its pronouns."""

    name: str
    they: str
    their: str


@dataclass(frozen=True)
class PassageKind:
    """A kind of passage: its subjects, its fields."""

    subjects: Callable[[Random, int], list[PassageSubject]]
    fields: tuple[FactKind, ...]


def some(options: tuple[str, ...]) -> Values:
    return lambda rng, count: rng.sample(options, count)


def numbers(low: int, high: int) -> Values:
    return lambda rng, count: [str(number) for number in rng.sample(range(low, high), count)]


def persons(rng: Random, count: int) -> list[PassageSubject]:
    return [PassageSubject(who.name, who.they, who.their) for who in people(rng, count)]


def labelled(pattern: str, values: Values) -> Callable[[Random, int], list[PassageSubject]]:
    return lambda rng, count: [PassageSubject(pattern.format(value), "it", "its") for value in values(rng, count)]


EVENTS = (
    "concert", "market", "race", "play", "picnic", "film", "lecture", "parade", "exhibition", "workshop", "ball",
    "auction", "circus", "dance", "debate", "fair", "festival", "feast", "match", "meeting", "opera", "party", "quiz",
    "show",
)  # fmt: skip
SHOPS = (
    "bakery", "bookshop", "flower shop", "toy shop", "cafe", "pharmacy", "shoe shop", "butcher", "tea house", "bar",
    "bicycle shop", "fish shop", "grocery", "hat shop", "jewellery shop", "kiosk", "music shop", "pet shop", "tailor",
    "wine shop",
)  # fmt: skip
VENUES = tuple(place for place in PLACES if place not in ("market", "bakery", "forest", "tower"))

CITY = FactKind(
    "city", cities, "{s} lives in {v}",
    ("{s} lives in {v}", "{p} home is in {v}", "{s} has a flat in {v}", "{v} is where {s} lives",
     "{s} moved to {v} long ago and still lives there"),
    ("Where does {s} live?", "In which city does {s} live?", "What is the home town of {s}?"),
    "where {s} lives", "the person who lives in {v}", ("Who lives in {v}?", "Who has a home in {v}?"),
    "Does {s} live in {v}?", "Do {s} and {o} live in the same city?",
    "How many people live in {v}?",
)  # fmt: skip
AGE = FactKind(
    "age", numbers(12, 90), "{s} is {v} years old",
    ("{s} is {v} years old", "{p} age is {v}", "{s} has just turned {v}", "{s} was born {v} years ago"),
    ("How old is {s}?", "What is the age of {s}?", "How many years old is {s}?"),
    "how old {s} is", "the person who is {v} years old", ("Who is {v} years old?", "Who is {v}?"),
    "Is {s} {v} years old?", "Do {s} and {o} have the same age?",
    "How many people are {v} years old?",
    NumberQuestions("Who is older, {s} or {o}?", "Is {s} older than {o}?", "Who is the oldest?", "Who is the youngest?",
          "How many years older is {s} than {o}?", "Who is more than {v} years old?"),
)  # fmt: skip
JOB = FactKind(
    "job", some(JOBS), "{s} works as {a}",
    ("{s} works as {a}", "{s} is {a}", "{s} makes a living as {a}", "{s} became {a} years ago and still is one"),
    ("What is the job of {s}?", "What does {s} do for a living?", "Which job does {s} have?"),
    "which job {s} has", "the {v}", ("Who works as {a}?", "Who is the {v}?"),
    "Does {s} work as {a}?", "Do {s} and {o} have the same job?",
    "How many people work as {a}?",
)  # fmt: skip
PET = FactKind(
    "pet", some(PETS), "{s} has {a}",
    ("{s} has {a}", "{s} keeps {a} at home", "{p} pet is {a}", "{s} takes care of {a}"),
    ("Which pet does {s} have?", "Which animal does {s} have?", "What kind of pet does {s} keep?"),
    "which pet {s} has", "the owner of the {v}", ("Who has {a}?", "Who keeps {a}?"),
    "Does {s} have {a}?", "Do {s} and {o} have the same kind of pet?",
    "How many people have {a}?",
)  # fmt: skip
FOOD = FactKind(
    "food", some(FOODS), "{s} likes to eat {v}",
    ("{s} likes to eat {v}", "{p} favourite food is {v}", "{s} loves to eat {v}", "{s} is very fond of {v}"),
    ("What does {s} like to eat?", "Which food does {s} like?", "What is the favourite food of {s}?"),
    "what {s} likes to eat", "the person who likes to eat {v}", ("Who likes to eat {v}?", "Who is fond of {v}?"),
    "Does {s} like to eat {v}?", "Do {s} and {o} like to eat the same food?",
    "How many people like to eat {v}?",
)  # fmt: skip
HOBBY = FactKind(
    "hobby", some(HOBBIES), "the hobby of {s} is {v}",
    ("{p} hobby is {v}", "{s} enjoys {v}", "{p} great joy is {v}", "in the evenings {s} has time for {v}"),
    ("What is the hobby of {s}?", "Which hobby does {s} have?", "What does {s} do in the evenings?"),
    "which hobby {s} has", "the person whose hobby is {v}", ("Whose hobby is {v}?", "Who enjoys {v}?"),
    "Is {v} the hobby of {s}?", "Do {s} and {o} have the same hobby?",
    "How many people have the hobby {v}?",
)  # fmt: skip


def colour_field(thing: str) -> FactKind:
    return FactKind(
        "colour", some(COLOURS), f"the {thing} of {{s}} is {{v}}",
        (f"{{p}} {thing} is {{v}}", f"{{s}} has {{a}} {thing}", f"{{s}} bought {{a}} {thing}"),
        (f"What colour is the {thing} of {{s}}?", f"Which colour does the {thing} of {{s}} have?"),
        f"what colour the {thing} of {{s}} is", f"the person with the {{v}} {thing}",
        (f"Who has the {{v}} {thing}?", f"Whose {thing} is {{v}}?"),
        f"Is the {thing} of {{s}} {{v}}?", f"Are the {thing} of {{s}} and the {thing} of {{o}} of the same colour?",
    f"How many people have {{a}} {thing}?",
    )  # fmt: skip


DAY = FactKind(
    "day", some(DAYS), "{s} is on {v}",
    ("{s} is on {v}", "{s} takes place on {v}", "on {v} you can go to {s}", "the day of {s} is {v}"),
    ("On which day is {s}?", "Which day is {s} on?", "On what day does {s} take place?"),
    "on which day {s} is", "the event on {v}", ("Which event is on {v}?", "What takes place on {v}?"),
    "Is {s} on {v}?", "Are {s} and {o} on the same day?",
    "How many events are on {v}?",
)  # fmt: skip
HOUR = FactKind(
    "hour", numbers(1, 12), "{s} starts at {v} o'clock",
    ("{s} starts at {v} o'clock", "{s} begins at {v} o'clock", "at {v} o'clock {s} starts"),
    ("When does {s} start?", "At what time does {s} begin?", "At which hour does {s} start?"),
    "when {s} starts", "the event that starts at {v} o'clock",
    ("Which event starts at {v} o'clock?", "What begins at {v} o'clock?"),
    "Does {s} start at {v} o'clock?", "Do {s} and {o} start at the same time?",
    "How many events start at {v} o'clock?",
    NumberQuestions("Which starts later, {s} or {o}?", "Does {s} start later than {o}?", "Which event starts last?",
          "Which event starts first?", "How many hours later than {o} does {s} start?",
          "Which events start after {v} o'clock?"),
)  # fmt: skip
VENUE = FactKind(
    "venue", some(VENUES), "{s} is at the {v}",
    ("{s} is at the {v}", "{s} takes place at the {v}", "you find {s} at the {v}", "the {v} is the place of {s}"),
    ("Where is {s}?", "Where does {s} take place?", "At which place is {s}?"),
    "where {s} is", "the event at the {v}", ("Which event is at the {v}?", "What takes place at the {v}?"),
    "Is {s} at the {v}?", "Are {s} and {o} in the same place?",
    "How many events are at the {v}?",
)  # fmt: skip
PRICE = FactKind(
    "price", numbers(2, 60), "{s} costs {v} dollars",
    ("{s} costs {v} dollars", "a ticket for {s} costs {v} dollars", "you pay {v} dollars for {s}",
     "the price of {s} is {v} dollars"),
    ("How much does {s} cost?", "What is the price of {s}?", "How many dollars does {s} cost?"),
    "how much {s} costs", "the one that costs {v} dollars", ("Which one costs {v} dollars?", "What costs {v} dollars?"),
    "Does {s} cost {v} dollars?", "Do {s} and {o} cost the same?",
    "How many of them cost {v} dollars?",
    NumberQuestions("Which is more expensive, {s} or {o}?", "Is {s} more expensive than {o}?",
          "Which is the most expensive?",
          "Which is the cheapest?", "How many dollars more expensive is {s} than {o}?",
          "What costs more than {v} dollars?"),
)  # fmt: skip
OWNER = FactKind(
    "owner", names, "{s} belongs to {v}",
    ("{s} belongs to {v}", "{v} owns {s}", "the owner of {s} is {v}"),
    ("Who owns {s}?", "To whom does {s} belong?", "Who is the owner of {s}?"),
    "who owns {s}", "the one that belongs to {v}", ("Which one belongs to {v}?", "What does {v} own?"),
    "Does {s} belong to {v}?", "Do {s} and {o} belong to the same person?",
    "How many of them belong to {v}?",
)  # fmt: skip
OPENS = FactKind(
    "opens", numbers(5, 13), "{s} opens at {v} o'clock",
    ("{s} opens at {v} o'clock", "you can enter {s} from {v} o'clock on", "at {v} o'clock {s} opens"),
    ("When does {s} open?", "At what time does {s} open?", "From which hour on is {s} open?"),
    "when {s} opens", "the shop that opens at {v} o'clock", ("Which shop opens at {v} o'clock?",),
    "Does {s} open at {v} o'clock?", "Do {s} and {o} open at the same time?",
    "How many shops open at {v} o'clock?",
    NumberQuestions("Which opens later, {s} or {o}?", "Does {s} open later than {o}?", "Which shop opens last?",
          "Which shop opens first?", "How many hours later than {o} does {s} open?",
          "Which shops open after {v} o'clock?"),
)  # fmt: skip
CLOSED = FactKind(
    "closed", some(DAYS), "{s} is closed on {v}",
    ("{s} is closed on {v}", "on {v} nobody can shop at {s}", "{s} never opens on {v}"),
    ("On which day is {s} closed?", "When is {s} closed?"),
    "on which day {s} is closed", "the shop that is closed on {v}", ("Which shop is closed on {v}?",),
    "Is {s} closed on {v}?", "Are {s} and {o} closed on the same day?",
    "How many shops are closed on {v}?",
)  # fmt: skip
DOOR = FactKind(
    "door", some(COLOURS), "the door of {s} is {v}",
    ("the door of {s} is {v}", "{s} has {a} door", "{p} door is {v}"),
    ("What colour is the door of {s}?", "Which colour does the door of {s} have?"),
    "what colour the door of {s} is", "the shop with the {v} door", ("Which shop has the {v} door?",),
    "Is the door of {s} {v}?", "Do {s} and {o} have doors of the same colour?",
    "How many shops have {a} door?",
)  # fmt: skip
CONTENT = FactKind(
    "content", some(COUNTED), "{s} holds {v}",
    ("{s} holds {v}", "{s} is full of {v}", "there are {v} in {s}", "you find {v} in {s}"),
    ("What does {s} hold?", "What is in {s}?", "What can you find in {s}?"),
    "what {s} holds", "the box that holds {v}", ("Which box holds {v}?", "Where are the {v}?"),
    "Does {s} hold {v}?", "Do {s} and {o} hold the same?",
    "How many boxes hold {v}?",
)  # fmt: skip
ROOM = FactKind(
    "room", some(ROOMS), "{s} stands in the {v}",
    ("{s} stands in the {v}", "{s} is in the {v}", "you can see {s} in the {v}"),
    ("Where is {s}?", "In which room does {s} stand?", "Where does {s} stand?"),
    "where {s} stands", "the box in the {v}", ("Which box is in the {v}?", "Which box stands in the {v}?"),
    "Does {s} stand in the {v}?", "Do {s} and {o} stand in the same room?",
    "How many boxes stand in the {v}?",
)  # fmt: skip
WEIGHT = FactKind(
    "weight", numbers(2, 50), "{s} weighs {v} pounds",
    ("{s} weighs {v} pounds", "the weight of {s} is {v} pounds", "{p} weight is {v} pounds"),
    ("How much does {s} weigh?", "What is the weight of {s}?", "How many pounds does {s} weigh?"),
    "how much {s} weighs", "the box that weighs {v} pounds", ("Which box weighs {v} pounds?",),
    "Does {s} weigh {v} pounds?", "Do {s} and {o} weigh the same?",
    "How many boxes weigh {v} pounds?",
    NumberQuestions("Which is heavier, {s} or {o}?", "Is {s} heavier than {o}?", "Which box is the heaviest?",
          "Which box is the lightest?", "How many pounds heavier is {s} than {o}?",
          "Which boxes weigh more than {v} pounds?"),
)  # fmt: skip
LEAVES = FactKind(
    "leaves", numbers(1, 13), "{s} leaves at {v} o'clock",
    ("{s} leaves at {v} o'clock", "{s} departs at {v} o'clock", "at {v} o'clock {s} leaves"),
    ("When does {s} leave?", "At what time does {s} depart?", "At which hour does {s} leave?"),
    "when {s} leaves", "the train that leaves at {v} o'clock", ("Which train leaves at {v} o'clock?",),
    "Does {s} leave at {v} o'clock?", "Do {s} and {o} leave at the same time?",
    "How many trains leave at {v} o'clock?",
    NumberQuestions("Which leaves later, {s} or {o}?", "Does {s} leave later than {o}?", "Which train leaves last?",
          "Which train leaves first?", "How many hours later than {o} does {s} leave?",
          "Which trains leave after {v} o'clock?"),
)  # fmt: skip
PLATFORM = FactKind(
    "platform", numbers(1, 30), "{s} waits on platform {v}",
    ("{s} waits on platform {v}", "{s} stands on platform {v}", "platform {v} is for {s}"),
    ("On which platform does {s} wait?", "Which platform does {s} leave from?", "What is the platform of {s}?"),
    "on which platform {s} waits", "the train on platform {v}", ("Which train waits on platform {v}?",),
    "Does {s} wait on platform {v}?", "Do {s} and {o} wait on the same platform?",
    "How many trains wait on platform {v}?",
)  # fmt: skip
DRIVER = FactKind(
    "driver", names, "the driver of {s} is {v}",
    ("the driver of {s} is {v}", "{v} drives {s}", "{v} is the driver of {s}"),
    ("Who drives {s}?", "Who is the driver of {s}?", "What is the name of the driver of {s}?"),
    "who drives {s}", "the train with the driver {v}", ("Which train has the driver {v}?",),
    "Does {v} drive {s}?", "Do {s} and {o} have the same driver?",
    "How many trains have the driver {v}?",
)  # fmt: skip

SCENES: dict[str, Callable[[Random], PassageKind]] = {
    "people": lambda rng: PassageKind(persons, (CITY, AGE, JOB, PET, FOOD, HOBBY, colour_field(rng.choice(THINGS)))),
    "events": lambda rng: PassageKind(labelled("the {}", some(EVENTS)), (DAY, HOUR, VENUE, PRICE)),
    "shops": lambda rng: PassageKind(labelled("the {}", some(SHOPS)), (OWNER, OPENS, CLOSED, DOOR)),
    "boxes": lambda rng: PassageKind(labelled("the {} box", some(COLOURS)), (OWNER, CONTENT, ROOM, WEIGHT)),
    "trains": lambda rng: PassageKind(labelled("the train to {}", cities), (LEAVES, PLATFORM, DRIVER, PRICE)),
}
