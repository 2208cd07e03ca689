"""The category `reading`: a short passage of invented facts, a question on it, an answer that says why.

What may live here: passages, questions and the sentences that answer them. It may not know how answers are judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from training.demo.talks.lexicon import CITIES, COLOURS, DAYS, HOBBIES, JOBS, PEOPLE, PETS, Person
from training.demo.talks.talk import Talk, a, by, capital

LEADS = (
    "Read the text and answer the question.\n\n{text}\n\nQuestion: {ask}",
    "{text}\n\n{ask}",
    "Here is a short text. {text}\n\nUsing only the text: {ask}",
    "Text: {text}\nQuestion: {ask}",
    "{ask}\n\n{text}",
)
EVENTS = ("concert", "market", "race", "play", "picnic", "film", "lecture", "parade", "exhibition", "workshop")
VENUES = ("park", "school", "library", "museum", "town hall", "station", "theatre", "church", "garden", "harbour")
SHOPS = ("bakery", "bookshop", "flower shop", "toy shop", "cafe", "pharmacy", "shoe shop", "butcher", "tea house")
THINGS = ("bicycle", "car", "coat", "umbrella", "boat", "bag", "scarf", "house", "guitar", "tent")


@dataclass(frozen=True)
class Question:
    """A question, its answer in full sentences, and the words that a right answer must hold, parted by "|"."""

    ask: str
    answer: str
    result: str


@dataclass(frozen=True)
class Resident:
    """One person of a passage and everything that is told of them."""

    person: Person
    age: int
    city: str
    job: str
    pet: str
    colour: str
    thing: str
    hobby: str

    def facts(self, kind: str) -> str:
        """The fact of one kind as a clause without the name, such as "lives in Rome"."""
        return {
            "age": f"is {self.age} years old",
            "city": f"lives in {self.city}",
            "job": f"works as {a(self.job)}",
            "pet": f"has {a(self.pet)}",
            "thing": f"owns {a(self.colour)} {self.thing}",
            "hobby": f"likes {self.hobby}",
        }[kind]

    def value(self, kind: str) -> str:
        return {"age": str(self.age), "thing": self.colour}.get(kind) or str(getattr(self, kind))


ASKED = {
    "age": "How old is {}?",
    "city": "Where does {} live?",
    "job": "What is {}'s job?",
    "pet": "Which animal does {} have?",
    "thing": "What colour is the {thing} of {}?",
    "hobby": "What does {} like to do?",
}
WHO = {
    "city": "Who lives in {}?",
    "job": "Who works as a {}?",
    "pet": "Who has a {}?",
    "hobby": "Who likes {}?",
}


def residents(rng: Random) -> tuple[str, Question]:
    """Two or three people with two to three kinds of facts each."""
    count = rng.choice((2, 3, 3))
    thing = rng.choice(THINGS)
    draws = [rng.sample(options, count) for options in (PEOPLE, range(19, 70), CITIES, JOBS, PETS, COLOURS, HOBBIES)]
    people = [
        Resident(who, age, city, job, pet, colour, thing, hobby)
        for who, age, city, job, pet, colour, hobby in zip(*draws, strict=True)
    ]
    kinds = rng.sample(list(ASKED), 3 if count == 2 else rng.choice((2, 3)))
    told = []
    for resident in people:
        name, facts = resident.person.name, [resident.facts(kind) for kind in kinds]
        if len(facts) == 2:
            told.append(f"{name} {facts[0]} and {facts[1]}.")
        else:
            told.append(f"{name} {facts[0]} and {facts[1]}. {capital(resident.person.they)} {facts[2]}.")
    text = " ".join(told)
    one, other = rng.sample(people, 2)
    name = one.person.name
    sought, known = rng.sample(kinds, 2)
    goal = rng.choice(("direct", "who", "hop", "hop", "same", "yes", "missing", "age"))
    if "age" in kinds and goal in ("age", "yes"):
        return text, ages(rng, people)
    if goal == "missing":
        absent = rng.choice([kind for kind in ASKED if kind not in kinds])
        ask = ASKED[absent].format(name, thing=thing)
        told_of = " and ".join(one.facts(kind) for kind in kinds[:2])
        start = by(("The text does not say that.", "That is not in the text."), name)
        return text, Question(ask, f"{start} It only says that {name} {told_of}, so I cannot know.", "so I cannot know")
    if goal == "who" and sought in WHO:
        asked = WHO[sought].format(one.value(sought))
        also = by(
            (
                "It is {n}. The text says that {n} {f}, while {o} {g}.",
                "{n} does: the text says that {n} {f}, but {o} {g}.",
            ),
            name,
        )
        answer = also.format(n=name, f=one.facts(sought), o=other.person.name, g=other.facts(sought))
        return text, Question(asked, answer, name)
    if goal == "same":
        same = f"Do {name} and {other.person.name} have the same {thing_of(sought, thing)}?"
        answer = f"No. {name} {one.facts(sought)}, but {other.person.name} {other.facts(sought)}."
        return text, Question(same, answer, f"No|{one.value(sought)}|{other.value(sought)}")
    if goal == "hop" and known in WHO:
        described = {
            "city": f"the person who lives in {one.city}",
            "job": f"the {one.job}",
            "pet": f"the owner of the {one.pet}",
            "hobby": f"the person who likes {one.hobby}",
        }[known]
        ask = ASKED[sought].format(described, thing=thing)
        reason = by(("{C} is {n}. ", "The text is about {n} here, because {n} {k}. ", "That is {n}, who {k}. "), name)
        first = reason.format(C=capital(described), n=name, k=one.facts(known))
        return text, Question(ask, f"{first}{name} {one.facts(sought)}.", one.value(sought))
    ask = ASKED[sought].format(name, thing=thing)
    tail = by(
        (
            "{n} {f}. The same part of the text says that {t} {k}.",
            "According to the text, {n} {f}. It also says that {t} {k}.",
            "{n}, who {k}, {f}.",
        ),
        name,
    )
    answer = tail.format(n=name, f=one.facts(sought), t=one.person.they, k=one.facts(known))
    return text, Question(ask, answer, one.value(sought))


def thing_of(kind: str, thing: str) -> str:
    return {"thing": f"colour of {thing}", "city": "home town", "pet": "kind of pet"}.get(kind, kind)


def ages(rng: Random, people: list[Resident]) -> Question:
    """Who is older, oldest or youngest, and by how much."""
    one, other = rng.sample(people, 2)
    old, young = (one, other) if one.age > other.age else (other, one)
    n, o = old.person.name, young.person.name
    kind = rng.choice(("order", "gap", "extreme", "yes"))
    if kind == "extreme":
        word = rng.choice(("oldest", "youngest"))
        chosen = (max if word == "oldest" else min)(people, key=lambda who: who.age)
        rest = [f"{who.person.name} is {who.age}" for who in people if who is not chosen]
        answer = f"{chosen.person.name} is the {word}, at {chosen.age} years. {' and '.join(rest)}."
        return Question(f"Who is the {word}?", answer, chosen.person.name)
    if kind == "yes":
        yes = one is old
        known = f"{one.person.name} is {one.age} and {other.person.name} is {other.age}"
        answer = f"{'Yes' if yes else 'No'}. {known}, so {n} is older."
        return Question(f"Is {one.person.name} older than {other.person.name}?", answer, "Yes" if yes else "No")
    if kind == "gap":
        gap = old.age - young.age
        working = f"{old.age} - {young.age} = {gap}"
        answer = f"{n} is {old.age} and {o} is {young.age}. {working}, so {n} is {gap} years older than {o}."
        return Question(f"How much older is {n} than {o}?", answer, f"{gap} years older")
    answer = f"{n} is older. {n} is {old.age} years old and {o} is {young.age}."
    return Question(f"Who is older, {one.person.name} or {other.person.name}?", answer, f"{n} is older")


def events(rng: Random) -> tuple[str, Question]:
    """Three events with place, day, hour and price."""
    count = 3
    names, venues = rng.sample(EVENTS, count), rng.sample(VENUES, count)
    days, hours = rng.sample(DAYS, count), rng.sample(range(1, 11), count)
    prices = rng.sample(range(2, 20), count)
    shapes = (
        "The {n} is in the {v} on {d} at {h} o'clock and costs {p} dollars.",
        "On {d} at {h} o'clock there is a {n} in the {v}, and a ticket is {p} dollars.",
        "A ticket for the {n} in the {v} is {p} dollars; it starts at {h} o'clock on {d}.",
    )
    rows = list(zip(names, venues, days, hours, prices, strict=True))
    text = " ".join(
        rng.choice(shapes).format(n=n, v=v, d=d, h=h, p=p).replace(" a exhibition", " an exhibition")
        for n, v, d, h, p in rows
    )
    name, venue, day, hour, price = rng.choice(rows)
    kind = rng.choice(("when", "where", "cheapest", "dearest", "two tickets", "cost", "which day", "afford"))
    if kind == "when":
        return text, Question(
            f"When does the {name} start?",
            f"The {name} starts at {hour} o'clock on {day}. It takes place in the {venue}.",
            f"{hour} o'clock|{day}",
        )
    if kind == "where":
        answer = f"The {name} is in the {venue}. You can go there on {day} at {hour} o'clock."
        return text, Question(f"Where is the {name}?", answer, venue)
    if kind == "which day":
        return text, Question(
            f"What can I do on {day}?",
            f"On {day} you can go to the {name} in the {venue}. It starts at {hour} o'clock and costs {price} dollars.",
            name,
        )
    if kind == "two tickets":
        return text, Question(
            f"How many dollars do two tickets for the {name} cost?",
            f"One ticket for the {name} is {price} dollars. Two tickets cost 2 * {price} = {2 * price} dollars.",
            f"{2 * price} dollars",
        )
    if kind == "cost":
        return text, Question(
            f"How much is a ticket for the event in the {venue}?",
            f"The event in the {venue} is the {name}. A ticket for it is {price} dollars.",
            f"{price} dollars",
        )
    if kind == "afford":
        limit = rng.randint(min(prices), max(prices) - 1)
        chosen = [row for row in rows if row[4] <= limit]
        parts = " and ".join(f"the {row[0]} for {row[4]} dollars" for row in chosen)
        rest = " and ".join(f"the {row[0]} costs {row[4]} dollars" for row in rows if row[4] > limit)
        answer = f"With {limit} dollars you can go to {parts}. That is not enough for the rest: {rest}."
        return text, Question(f"Where can I go if I have {limit} dollars?", answer, "|".join(row[0] for row in chosen))
    cheap = kind == "cheapest"
    best = (min if cheap else max)(rows, key=lambda row: row[4])
    others = " and ".join(f"the {row[0]} costs {row[4]}" for row in rows if row is not best)
    word = "cheapest" if cheap else "most expensive"
    return text, Question(
        f"Which event is the {word}?",
        f"The {best[0]} is the {word} event. It costs {best[4]} dollars, while {others} dollars.",
        f"{best[0]} is the {word}",
    )


def shops(rng: Random) -> tuple[str, Question]:
    """Shops in a row of a street: order, opening hours and owners."""
    names = rng.sample(SHOPS, 3)
    owners = rng.sample(PEOPLE, 3)
    opens, closed = rng.sample(range(6, 12), 3), rng.sample(DAYS, 3)
    colours = rng.sample(COLOURS, 3)
    told = []
    for name, owner, hour, day, colour in zip(names, owners, opens, closed, colours, strict=True):
        times = f"It opens at {hour} and is closed on {day}"
        by_owner = f"{owner.name} runs the {name} with the {colour} door. {times}."
        told.append(rng.choice((f"The {name} belongs to {owner.name}. {times}, and its door is {colour}.", by_owner)))
    text = " ".join(told)
    i, j = rng.sample(range(3), 2)
    name, owner, hour, day, colour = names[i], owners[i], opens[i], closed[i], colours[i]
    kind = rng.choice(("owner", "door", "opens", "closed", "first", "later", "open on"))
    if kind == "owner":
        answer = f"The {name} belongs to {owner.name}. It is the shop with the {colour} door."
        return text, Question(f"Who owns the {name}?", answer, owner.name)
    if kind == "door":
        answer = f"The shop with the {colour} door is the {name}. {owner.name} runs it, and it opens at {hour}."
        return text, Question(f"Which shop has the {colour} door?", answer, name)
    if kind == "opens":
        answer = f"{owner.name} runs the {name}, and the {name} opens at {hour}."
        return text, Question(f"When does the shop of {owner.name} open?", answer, f"opens at {hour}")
    if kind == "closed":
        elsewhen = f"{owner.name} is there on other days."
        answer = f"You cannot shop at the {name} on {day}, because it is closed then. {elsewhen}"
        return text, Question(f"On which day is the {name} closed?", answer, day)
    if kind == "open on":
        asked = rng.choice((day, closed[j]))
        shut = asked == day
        reason = f"it is closed on {day}" if shut else f"it is only closed on {day}"
        answer = f"{'No' if shut else 'Yes'}. The {name} belongs to {owner.name}, and {reason}."
        return text, Question(f"Can I visit the {name} on {asked}?", answer, "No" if shut else "Yes")
    if kind == "first":
        best = min(range(3), key=lambda k: opens[k])
        rest = " and ".join(f"the {names[k]} at {opens[k]}" for k in range(3) if k != best)
        answer = f"The {names[best]} opens first, at {opens[best]}. After it come {rest}."
        return text, Question("Which shop opens first?", answer, f"{names[best]} opens first")
    late, soon = (i, j) if opens[i] > opens[j] else (j, i)
    gap = opens[late] - opens[soon]
    unit = "hour" if gap == 1 else "hours"
    known = f"The {names[late]} opens at {opens[late]} and the {names[soon]} at {opens[soon]}."
    gist = f"{names[late]} opens {gap} {unit} later"
    return text, Question(f"Which opens later, the {name} or the {names[j]}?", f"{known} So the {gist}.", gist)


SCENES = {"residents": residents, "events": events, "shops": shops}


SUBJECTS = (*(person.name for person in PEOPLE), *EVENTS, *SHOPS)


def quotes(text: str, answer: str) -> list[str]:
    """What the text tells of those that the answer names, in the order in which it names them."""
    told = re.split(r"(?<=\.) (?!It |He |She )", text)
    named = sorted((subject for subject in SUBJECTS if subject in answer), key=answer.index)
    found = [part for subject in named for part in told if subject in part]
    return list(dict.fromkeys(found))


REQUESTS = ("", "Quote the text.", "Which sentences say so?", "Give the reason.")


def make(rng: Random) -> Talk:
    """One passage with one question; the result is what the answer must name."""
    family = rng.choices(list(SCENES), weights=(3, 2, 2))[0]
    text, question = SCENES[family](rng)
    request = rng.choice(REQUESTS)
    ask = f"{question.ask} {request}".strip()
    prompt = rng.choice(LEADS).format(text=text, ask=ask)
    answer = question.answer
    quoted = quotes(text, answer)
    if request == "Quote the text.":
        answer += "\n\n" + "\n".join(f"> {part}" for part in quoted[:2])
    elif request == "Which sentences say so?":
        answer += "\n\nThese sentences say so:\n" + "\n".join(f"- {part}" for part in quoted)
    elif request == "Give the reason.":
        answer += f' I know this because the text says: "{quoted[0]}"'
    return Talk(family, ((prompt, answer),), tuple(question.result.split("|")))
