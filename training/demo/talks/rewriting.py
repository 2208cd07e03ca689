"""The category `rewriting`: the same content in another form: tables, JSON, lists, forms, person and tense.

What may live here: texts and the exact forms they are turned into. It may not know how answers are judged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from training.demo.talks.lexicon import CITIES, COLOURS, DAYS, FOODS, JOBS, PEOPLE, Person
from training.demo.talks.talk import Talk, by, capital, listed

GOODS = ("pens", "cups", "lamps", "chairs", "books", "plates", "shirts", "boxes", "ropes", "bowls", "clocks", "bells")
Row = dict[str, str | int]


@dataclass(frozen=True)
class Subject:
    """A kind of record: its columns and ways to tell a row in a sentence."""

    columns: tuple[str, ...]
    shapes: tuple[str, ...]
    number: str


SUBJECTS = {
    "people": Subject(
        ("name", "age", "city"),
        ("{name} is {age} years old and lives in {city}.", "{name} lives in {city} and is {age}.",
         "{name} from {city} is {age} years old."),
        "age",
    ),
    "staff": Subject(
        ("name", "job", "years"),
        ("{name} has worked as a {job} for {years} years.", "{name} is a {job} with {years} years of work.",
         "For {years} years {name} has been a {job}."),
        "years",
    ),
    "stock": Subject(
        ("item", "count", "price"),
        ("There are {count} {item} at {price} dollars each.", "We have {count} {item}, each for {price} dollars.",
         "The {item} cost {price} dollars each and {count} are left."),
        "price",
    ),
    "visits": Subject(
        ("name", "day", "hour"),
        ("{name} comes on {day} at {hour}.", "On {day} at {hour} we expect {name}.",
         "{name} has booked {day}, {hour} o'clock."),
        "hour",
    ),
}  # fmt: skip


def draw_rows(rng: Random, kind: str) -> list[Row]:
    count = rng.choice((3, 3, 4))
    pools: dict[str, list[str | int]] = {
        "name": [who.name for who in rng.sample(PEOPLE, count)],
        "age": list(rng.sample(range(18, 80), count)),
        "city": list(rng.sample(CITIES, count)),
        "job": list(rng.sample(JOBS, count)),
        "years": list(rng.sample(range(2, 30), count)),
        "item": list(rng.sample(GOODS, count)),
        "count": list(rng.sample(range(2, 60), count)),
        "price": list(rng.sample(range(2, 40), count)),
        "day": list(rng.sample(DAYS, count)),
        "hour": list(rng.sample(range(1, 13), count)),
    }
    return [{column: pools[column][i] for column in SUBJECTS[kind].columns} for i in range(count)]


def table(rows: list[Row]) -> str:
    columns = list(rows[0])
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(str(row[column]) for column in columns)} |" for row in rows)])


def as_json(rows: list[Row]) -> str:
    inner = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return f"[\n{inner}\n]"


def bullets(rows: list[Row]) -> str:
    return "\n".join(f"- {row_label(row)}" for row in rows)


def row_label(row: Row) -> str:
    first, *rest = row.items()
    return f"{capital(str(first[1]))}: {', '.join(f'{column} {value}' for column, value in rest)}"


def form(rows: list[Row]) -> str:
    return "\n\n".join("\n".join(f"{capital(column)}: {value}" for column, value in row.items()) for row in rows)


FORMS = {
    "a Markdown table": (table, "table"),
    "a table": (table, "table"),
    "JSON": (as_json, "JSON"),
    "a JSON list": (as_json, "JSON"),
    "a bullet list": (bullets, "list"),
    "a filled-in form for each entry": (form, "forms"),
}
ASKS = (
    "Turn this text into {form}{order}.\n\n{text}",
    "Rewrite the following as {form}{order}: {text}",
    "{text}\n\nPut this into {form}{order}.",
    "Please convert to {form}{order}:\n{text}",
)


def records(rng: Random) -> Talk:
    """Sentences to a table, JSON, a list or forms, in the given order, sorted, or only some of the rows."""
    kind = rng.choice(list(SUBJECTS))
    subject, rows = SUBJECTS[kind], draw_rows(rng, kind)
    text = " ".join(rng.choice(subject.shapes).format(**row) for row in rows)
    asked = rng.choice(list(FORMS))
    lay, noun = FORMS[asked]
    order, note = "", ""
    turn = rng.choice(("plain", "plain", "up", "down", "name", "filter"))
    if turn in ("up", "down"):
        rows = sorted(rows, key=lambda row: int(row[subject.number]), reverse=turn == "down")
        order = f", sorted by {subject.number}, {'highest' if turn == 'down' else 'lowest'} first"
        note = f", sorted by {subject.number}"
    elif turn == "name":
        rows = sorted(rows, key=lambda row: str(row[subject.columns[0]]))
        order = f", sorted by {subject.columns[0]}"
        note = f", in the order of the {subject.columns[0]}"
    elif turn == "filter":
        bound = int(rng.choice(rows)[subject.number])
        rows = [row for row in rows if int(row[subject.number]) >= bound]
        order = f", only with {subject.number} {bound} or more"
        note = f", only with {subject.number} {bound} or more"
    prompt = rng.choice(ASKS).format(form=asked, order=order, text=text)
    intro = by(("Here you find the {}{}:", "The {}{}:", "As you asked, the {}{}:"), str(rows[0][subject.columns[0]]))
    return Talk(f"{kind} to {noun}", ((prompt, f"{intro.format(noun, note)}\n\n{lay(rows)}"),), (lay(rows),))


@dataclass(frozen=True)
class Deed:
    """A verb phrase in its forms; {their} is filled with the pronoun that belongs to the doer."""

    plain: str
    third: str
    past: str


DEEDS = tuple(
    Deed(*row)
    for row in (
        ("wake up at {hour}", "wakes up at {hour}", "woke up at {hour}"),
        ("eat {food} for breakfast", "eats {food} for breakfast", "ate {food} for breakfast"),
        ("walk to the {place}", "walks to the {place}", "walked to the {place}"),
        ("take {their} {colour} bag", "takes {their} {colour} bag", "took {their} {colour} bag"),
        ("meet {friend} at the {place}", "meets {friend} at the {place}", "met {friend} at the {place}"),
        ("buy {food} and a {colour} scarf", "buys {food} and a {colour} scarf", "bought {food} and a {colour} scarf"),
        ("write a letter to {friend}", "writes a letter to {friend}", "wrote a letter to {friend}"),
        ("clean {their} room", "cleans {their} room", "cleaned {their} room"),
        ("call {their} mother", "calls {their} mother", "called {their} mother"),
        ("play cards with {friend}", "plays cards with {friend}", "played cards with {friend}"),
        ("work in the {place} until {hour}", "works in the {place} until {hour}", "worked in the {place} until {hour}"),
        ("cook {food} with {their} sister", "cooks {food} with {their} sister", "cooked {food} with {their} sister"),
        ("ride {their} {colour} bicycle", "rides {their} {colour} bicycle", "rode {their} {colour} bicycle"),
        ("lose {their} keys in the {place}", "loses {their} keys in the {place}", "lost {their} keys in the {place}"),
        ("find a {colour} coin", "finds a {colour} coin", "found a {colour} coin"),
        ("read a book about {food}", "reads a book about {food}", "read a book about {food}"),
        ("sing a song for {friend}", "sings a song for {friend}", "sang a song for {friend}"),
        ("go home at {hour}", "goes home at {hour}", "went home at {hour}"),
        ("paint {their} door {colour}", "paints {their} door {colour}", "painted {their} door {colour}"),
        ("give {friend} some {food}", "gives {friend} some {food}", "gave {friend} some {food}"),
    )
)
PLACES = ("market", "station", "park", "library", "office", "garden", "school", "harbour", "museum", "kitchen")
OPENERS = ("", "Then ", "After that, ", "Later ")
CHANGES = {
    ("first", "third"): ("Rewrite in the third person, about {name}.", "Change this from I to {name}."),
    ("third", "first"): ("Rewrite in the first person.", "Tell this as if you were {name}."),
    ("third", "past"): ("Rewrite in the past tense.", "Change this text to the past tense."),
    ("past", "third"): ("Rewrite in the present tense.", "Change this text to the present tense."),
    ("first", "first past"): ("Rewrite in the past tense.", "Put this text into the past tense."),
    ("third", "list"): ("Turn this into a numbered list of what {name} does.", "List the steps in this text."),
}


def person_and_tense(rng: Random) -> Talk:
    """Three to five sentences about one day, told by another person or at another time."""
    hero, friend = rng.sample(PEOPLE, 2)
    count = rng.choice((3, 4, 4, 5))
    filled = []
    for deed in rng.sample(DEEDS, count):
        words = {"hour": rng.choice(("six", "seven", "eight", "nine", "ten")), "food": rng.choice(FOODS)}
        words |= {"place": rng.choice(PLACES), "colour": rng.choice(COLOURS), "friend": friend.name}
        filled.append((deed, words))
    source, wanted = rng.choice(list(CHANGES))
    told, again = (render(filled, hero, voice) for voice in (source, wanted))
    ask = rng.choice(CHANGES[source, wanted]).format(name=hero.name)
    ask_last = source == "third" and rng.random() < 0.5
    prompt = f"{told}\n\n{ask}" if ask_last else f"{ask}\n\n{told}"
    return Talk(f"{source} to {wanted}", ((prompt, again),), (again,))


def render(filled: list[tuple[Deed, dict[str, str]]], hero: Person, voice: str) -> str:
    sentences = []
    for n, (deed, words) in enumerate(filled):
        own = "my" if voice.startswith("first") else hero.their
        form = {"third": deed.third, "list": deed.third, "first": deed.plain}.get(voice, deed.past)
        clause = form.format(their=own, **words)
        if voice == "list":
            sentences.append(f"{n + 1}. {capital(clause)}.")
            continue
        who = "I" if voice.startswith("first") else hero.name if n == 0 else hero.they
        sentences.append(f"{capital(OPENERS[n % 4] + who)} {clause}.")
    return ("\n" if voice == "list" else " ").join(sentences)


def summaries(rng: Random) -> Talk:
    """A few sentences on a trip or a meeting: to one sentence, to its names, or to a form."""
    people = rng.sample(PEOPLE, rng.choice((2, 3)))
    names = [who.name for who in people]
    city, day, food, colour = rng.choice(CITIES), rng.choice(DAYS), rng.choice(FOODS), rng.choice(COLOURS)
    hour, cost = rng.randint(2, 11), rng.randint(10, 90)
    means = rng.choice(("train", "bus", "car", "boat", "bicycle"))
    sentences = [
        f"On {day} {listed(names)} went to {city}.",
        f"{rng.choice((f'They took the {means}', f'Their {means} left'))} at {hour} in the morning.",
        rng.choice((f"At noon they ate {food}.", f"{names[-1]} wanted {food}, so they ate that at noon.")),
        rng.choice((f"{names[0]} bought a {colour} hat.", f"In a small shop {names[0]} found a {colour} hat.")),
        f"In all the trip cost {cost} dollars.",
    ]
    text = " ".join(sentences)
    kind = rng.choice(("summary", "names", "form", "headline"))
    if kind == "summary":
        ask = rng.choice(("Summarise this in one sentence.", "Give me a one-sentence summary."))
        answer = (
            f"On {day} {listed(names)} went to {city} by {means}, ate {food}, and spent {cost} dollars, "
            f"with a {colour} hat for {names[0]}."
        )
    elif kind == "names":
        ask = rng.choice(("Extract all names of people and places.", "Which people and places does the text name?"))
        answer = "People:\n" + "\n".join(f"- {name}" for name in names) + f"\n\nPlaces:\n- {city}"
    elif kind == "form":
        ask = "Fill in this form: Who, Where, When, Transport, Food, Cost."
        fields = [("Who", listed(names)), ("Where", city), ("When", f"{day}, {hour} in the morning")]
        fields += [("Transport", means), ("Food", food), ("Cost", f"{cost} dollars")]
        answer = "\n".join(f"{field}: {value}" for field, value in fields)
    else:
        ask = "Write a headline and a short text of two sentences about this."
        answer = (
            f"**A {day} in {city}**\n\n{capital(listed(names))} went to {city} by {means} for {cost} dollars. "
            f"They ate {food}, and {names[0]} came home with a {colour} hat."
        )
    prompt = f"{ask}\n\n{text}" if rng.random() < 0.5 else f"{text}\n\n{ask}"
    return Talk(kind, ((prompt, answer),), (answer,))


def make(rng: Random) -> Talk:
    """One text to be rewritten; the result is the wanted form, word for word."""
    return rng.choices((records, person_and_tense, summaries), weights=(4, 3, 2))[0](rng)
