"""Records stated in sentences, and their other forms: tables, JSON, lists and forms, sorted, filtered or shortened.

What may live here: kinds of records, the forms, and the working that sorts and filters. It may not know other texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.demo.talks.lexicon import DAYS, HOBBIES, JOBS, cities, names
from training.demo.talks.talk import Talk, capital

GOODS = (
    "pens", "cups", "lamps", "chairs", "books", "plates", "shirts", "boxes", "ropes", "bowls", "clocks", "bells",
    "bags", "brushes", "buckets", "candles", "caps", "coats", "drums", "forks", "hats", "jars", "kites", "ladders",
    "mugs", "pans", "pillows", "rings", "shoes", "spoons", "tables", "tents", "towels", "vases", "wheels",
)  # fmt: skip
Row = dict[str, str | int]


@dataclass(frozen=True)
class RecordKind:
    """A kind of record: its columns and ways to tell a row in a sentence. `number` is the column that sorts."""

    columns: tuple[str, ...]
    shapes: tuple[str, ...]
    number: str


SUBJECTS = {
    "people": RecordKind(
        ("name", "age", "city"),
        ("{name} is {age} years old and lives in {city}.", "{name} lives in {city} and is {age}.",
         "{name} from {city} is {age} years old.", "At the age of {age}, {name} has moved to {city}."),
        "age",
    ),
    "staff": RecordKind(
        ("name", "job", "years"),
        ("{name} has worked as {a_job} for {years} years.", "{name} is {a_job} with {years} years of work.",
         "For {years} years {name} has been {a_job}."),
        "years",
    ),
    "stock": RecordKind(
        ("item", "count", "price"),
        ("There are {count} {item} at {price} dollars each.", "We have {count} {item}, each for {price} dollars.",
         "The {item} cost {price} dollars each and {count} are left."),
        "price",
    ),
    "visits": RecordKind(
        ("name", "day", "hour"),
        ("{name} comes on {day} at {hour}.", "On {day} at {hour} we expect {name}.",
         "{name} has booked {day}, {hour} o'clock."),
        "hour",
    ),
    "players": RecordKind(
        ("name", "sport", "points"),
        ("{name} has {points} points in {sport}.", "In {sport}, {name} made {points} points.",
         "{name} does {sport} and has {points} points."),
        "points",
    ),
}  # fmt: skip


def draw_rows(rng: Random, kind: str) -> list[Row]:
    count = rng.choice((2, 3, 3, 4))
    pools: dict[str, Callable[[], list[str] | list[int]]] = {
        "name": lambda: names(rng, count),
        "age": lambda: rng.sample(range(12, 90), count),
        "city": lambda: cities(rng, count),
        "job": lambda: rng.sample(JOBS, count),
        "years": lambda: rng.sample(range(2, 30), count),
        "item": lambda: rng.sample(GOODS, count),
        "count": lambda: rng.sample(range(2, 60), count),
        "price": lambda: rng.sample(range(2, 40), count),
        "day": lambda: rng.sample(DAYS, count),
        "hour": lambda: rng.sample(range(1, 13), count),
        "sport": lambda: rng.sample(HOBBIES, count),
        "points": lambda: rng.sample(range(2, 99), count),
    }
    drawn = {column: pools[column]() for column in SUBJECTS[kind].columns}
    return [{column: drawn[column][i] for column in drawn} for i in range(count)]


def told(rng: Random, kind: str, rows: list[Row]) -> str:
    sentences = []
    for row in rows:
        job = str(row.get("job", "x"))
        sentences.append(
            rng.choice(SUBJECTS[kind].shapes).format(a_job=f"{'an' if job[0] in 'aeiou' else 'a'} {job}", **row)
        )
    return " ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)


def table(rows: list[Row]) -> str:
    columns = list(rows[0])
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(str(row[column]) for column in columns)} |" for row in rows)])


def as_json(rows: list[Row]) -> str:
    inner = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return f"[\n{inner}\n]"


def bullets(rows: list[Row]) -> str:
    return "\n".join(f"- {', '.join(str(value) for value in row.values())}" for row in rows)


def numbered(rows: list[Row]) -> str:
    return "\n".join(f"{n}. {', '.join(str(value) for value in row.values())}" for n, row in enumerate(rows, 1))


def form(rows: list[Row]) -> str:
    parts = ("\n".join(f"{capital(column)}: {value}" for column, value in row.items()) for row in rows)
    return "\n---\n".join(parts)


def csv(rows: list[Row]) -> str:
    return "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)])


Layout = Callable[[list[Row]], str]
FORMS: dict[str, tuple[Layout, tuple[str, ...]]] = {
    "table": (table, ("a Markdown table", "a table")),
    "JSON": (as_json, ("JSON", "a JSON list")),
    "list": (bullets, ("a bullet list", "a list with bullets")),
    "numbers": (numbered, ("a numbered list",)),
    "forms": (form, ("a filled-in form for each entry", "forms")),
    "CSV": (csv, ("CSV", "lines of CSV")),
}
ASKS = (
    "Turn this text into {form}{order}.\n\n{text}",
    "Rewrite the following as {form}{order}: {text}",
    "{text}\n\nPut this into {form}{order}.",
    "Please convert to {form}{order}:\n{text}",
    "{text}\n\nI need this as {form}{order}.",
)
# What is asked for beyond the form; each is one constraint.
PLAIN, SORTED, FILTERED, SHORTENED = "plain", "sorted", "filtered", "shortened"


def make_records(layouts: tuple[str, ...], *changes: tuple[str, ...]) -> Callable[[Random], Talk]:
    """Sentences to one of the forms, under one of the sets of constraints. The intermediate work is written out first:
    which rows stay, then their order."""

    def make(rng: Random) -> Talk:
        kind, change = rng.choice(list(SUBJECTS)), rng.choice(changes)
        subject, rows = SUBJECTS[kind], draw_rows(rng, kind)
        text = told(rng, kind, rows)
        lay, ways = FORMS[rng.choice(layouts)]
        wishes, working = [], []
        if FILTERED in change:
            rows, wish, lines = kept(rng, rows, subject)
            wishes.append(wish)
            working += lines
        if SORTED in change:
            rows, wish, lines = ranked(rng, rows, subject)
            wishes.append(wish)
            working += lines
        if SHORTENED in change:
            left_out = rng.choice(subject.columns[1:])
            rows = [{column: value for column, value in row.items() if column != left_out} for row in rows]
            wishes.append(f"without the {left_out}")
        order = "".join(f", {wish}" for wish in wishes)
        prompt = rng.choice(ASKS).format(form=rng.choice(ways), order=order, text=text)
        wanted = lay(rows)
        answer = "\n\n".join(["\n".join(working), wanted] if working else [wanted])
        return Talk("", ((prompt, answer),), (wanted,))

    return make


def kept(rng: Random, rows: list[Row], subject: RecordKind) -> tuple[list[Row], str, list[str]]:
    """The rows on one side of a bound, each compared with it."""
    column, label = subject.number, subject.columns[0]
    numbers = sorted(int(row[column]) for row in rows)
    place = rng.randrange(len(numbers) - 1)
    bound = rng.randint(numbers[place], numbers[place + 1] - 1)
    above = rng.random() < 0.5
    chosen = [row for row in rows if (int(row[column]) > bound) == above]
    if not above:
        bound += 1
        chosen = [row for row in rows if int(row[column]) < bound]
    word = "more" if above else "less"
    lines = [
        f"{row[label]}: {row[column]} is {word} than {bound}, {'keep' if row in chosen else 'leave out'}."
        if row in chosen
        else f"{row[label]}: {row[column]} is not {word} than {bound}, leave out."
        for row in rows
    ]
    return chosen, f"only with {column} {'above' if above else 'below'} {bound}", lines


def ranked(rng: Random, rows: list[Row], subject: RecordKind) -> tuple[list[Row], str, list[str]]:
    """The rows ordered by their number; the numbers are sorted before."""
    column = subject.number
    highest = rng.random() < 0.5
    order = sorted(rows, key=lambda row: int(row[column]), reverse=highest)
    wish = f"sorted by {column}, {'highest' if highest else 'lowest'} first"
    return order, wish, [f"Order by {column}: {', '.join(str(row[column]) for row in order)}."]
