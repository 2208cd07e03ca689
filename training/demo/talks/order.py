"""Reading passages in which order matters: one thing after another, who came before whom, and where things went.

What may live here: such passages with their questions, worked out step by step. It may not know tables of facts.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from training.demo.talks.lexicon import PLACES, PORTABLE, ROOMS, THINGS, people
from training.demo.talks.questions import REFUSAL, PassageQuestion
from training.demo.talks.talk import listed

Told = tuple[str, PassageQuestion]
LINKS = ("After that", "Then", "Next", "Later")
ORDINALS = ("first", "second", "third", "fourth", "fifth")


def way(rng: Random) -> Told:
    """The places that somebody goes to, in turn; asked for what comes first, last, next, before, or how many."""
    who = people(rng, 1)[0]
    stops = rng.sample(PLACES, rng.choice((3, 4, 4, 5)))
    verbs = ("went to", "walked to", "drove to")
    told = [f"First {who.name} {rng.choice(verbs)} the {stops[0]}."]
    for stop in stops[1:-1]:
        subject = rng.choice((who.name, who.they))
        told.append(f"{rng.choice(LINKS)} {subject} {rng.choice(verbs)} the {stop}.")
    told.append(f"Finally {who.they} {rng.choice(verbs)} the {stops[-1]}.")
    text = " ".join(told)
    kind = rng.choice(("first", "last", "after", "before", "many", "number", "missing"))
    if kind == "many":
        steps = " ".join(f"{n}: the {stop}." for n, stop in enumerate(stops, 1))
        ask = f"How many places did {who.name} go to?"
        return text, PassageQuestion(ask, (steps, f"So the number is {len(stops)}."), (str(len(stops)),))
    if kind == "missing":
        absent = rng.choice([place for place in PLACES if place not in stops])
        ask = f"Where did {who.name} go after the {absent}?"
        ending = f"The text {REFUSAL} that {who.name} went to the {absent}."
        return text, PassageQuestion(ask, (ending,), (REFUSAL,), tuple(stops))
    if kind == "number":
        number = rng.randrange(len(stops))
        ask = f"Which was the {ORDINALS[number]} place that {who.name} went to?"
        steps = " ".join(f"{n}: the {stop}." for n, stop in enumerate(stops[: number + 1], 1))
        return text, concluded(ask, (steps,), f"the {stops[number]}", stops[number], stops)
    if kind in ("first", "last"):
        place = stops[0 if kind == "first" else -1]
        ask = f"Where did {who.name} go {kind}?"
        return text, PassageQuestion(ask, (f"{who.name} went to the {place} {kind}.",), (place,), without(stops, place))
    index = rng.randrange(len(stops) - 1)
    one, other = stops[index], stops[index + 1]
    if kind == "after":
        ask = rng.choice(("Where did {n} go after the {p}?", "Which place did {n} go to right after the {p}?"))
        ending = f"After the {one} {who.name} went to the {other}."
        return text, PassageQuestion(ask.format(n=who.name, p=one), (ending,), (other,), without(stops, one, other))
    ask = rng.choice(("Where was {n} right before the {p}?", "Which place did {n} go to right before the {p}?"))
    ending = f"Before the {other} {who.name} went to the {one}."
    return text, PassageQuestion(ask.format(n=who.name, p=other), (ending,), (one,), without(stops, one, other))


def without(options: list[str], *right: str) -> tuple[str, ...]:
    return tuple(option for option in options if option not in right)


def concluded(ask: str, evidence: tuple[str, ...], told: str, right: str, options: list[str]) -> PassageQuestion:
    return PassageQuestion(ask, (*evidence, f"So the answer is {told}."), (right,), without(options, right))


def race(rng: Random) -> Told:
    """Who came in before whom, in mixed order; the whole order is put together before the answer."""
    runners = [who.name for who in people(rng, rng.choice((3, 3, 4)))]
    shapes = ("{a} came in just before {b}.", "{b} came in just after {a}.", "Right behind {a} came {b}.")
    told = [rng.choice(shapes).format(a=one, b=other) for one, other in pairwise(runners)]
    if rng.random() < 0.5:
        rng.shuffle(told)
    text = " ".join(["There was a race.", *told])
    steps = (f"The order is {', '.join(runners)}.",)
    kind = rng.choice(("won", "last", "second", "before"))
    if kind == "before":
        one, other = rng.sample(runners, 2)
        yes = runners.index(one) < runners.index(other)
        right, wrong = ("yes", "no") if yes else ("no", "yes")
        ask = f"Did {one} come in before {other}?"
        return text, PassageQuestion(ask, (*steps, f"So the answer is {right}."), (right,), (wrong,))
    ask = {"won": "Who won the race?", "last": "Who came in last?", "second": "Who came in second?"}[kind]
    right = runners[{"won": 0, "last": -1, "second": 1}[kind]]
    return text, concluded(ask, steps, right, right, runners)


def moves(rng: Random) -> Told:
    """People walk through rooms and carry things; asked for where somebody or something is now."""
    who = people(rng, rng.choice((2, 2, 3)))
    rooms = rng.sample(ROOMS, 4)
    thing = rng.choice(PORTABLE)
    carrier = rng.choice(who)
    now: dict[str, str] = {}
    told = []
    verbs = ("went to", "walked into")
    for person in rng.sample(who, len(who)):
        now[person.name] = rng.choice(rooms)
        told.append(f"{person.name} {rng.choice(verbs)} the {now[person.name]}.")
    took = rng.choice((f"{carrier.name} took the {thing}.", f"{carrier.name} picked up the {thing}."))
    told.append(took)
    for _ in range(rng.choice((1, 2, 2, 3))):
        person = rng.choice(who)
        now[person.name] = rng.choice([room for room in rooms if room != now[person.name]])
        told.append(f"{'Then ' * (rng.random() < 0.3)}{person.name} {rng.choice(verbs)} the {now[person.name]}.")
    text = " ".join(told)
    if rng.random() < 0.15:
        absent = rng.choice([other for other in PORTABLE if other != thing])
        ending = f"The text {REFUSAL} where the {absent} is."
        return text, PassageQuestion(f"Where is the {absent} now?", (ending,), (REFUSAL,), tuple(rooms))
    if rng.random() < 0.5:
        room = now[carrier.name]
        steps = (f"{carrier.name} has the {thing}.", f"{carrier.name} is in the {room}.")
        ask = rng.choice((f"Where is the {thing} now?", f"In which room is the {thing}?"))
        ending = f"So the {thing} is in the {room}."
        return text, PassageQuestion(ask, (*steps, ending), (room,), without(rooms, room))
    name = rng.choice(who).name
    ask = rng.choice((f"Where is {name} now?", f"In which room is {name} at the end?"))
    return text, PassageQuestion(ask, (f"{name} is in the {now[name]}.",), (now[name],), without(rooms, now[name]))


def all_of_one_day(rng: Random) -> Told:
    """Several people do one thing each; asked for who did it, or what somebody did."""
    who = people(rng, 3)
    things = rng.sample(THINGS, 3)
    verbs = rng.sample(("bought", "sold", "lost", "found", "mended", "painted", "cleaned"), 3)
    deeds = list(zip([person.name for person in who], verbs, things, strict=True))
    text = " ".join(f"{name} {verb} {'an' if t[0] in 'aeiou' else 'a'} {t}." for name, verb, t in deeds)
    name, verb, thing = rng.choice(deeds)
    names = [person.name for person in who]
    kind = rng.choice(("who", "what", "all"))
    if kind == "who":
        ending = f"The one who {verb} the {thing} is {name}."
        return text, PassageQuestion(f"Who {verb} the {thing}?", (ending,), (name,), without(names, name))
    if kind == "what":
        base = {"bought": "buy", "sold": "sell", "lost": "lose", "found": "find", "mended": "mend", "painted": "paint",
                "cleaned": "clean"}[verb]  # fmt: skip
        ending = f"{name} {verb} the {thing}."
        return text, PassageQuestion(f"What did {name} {base}?", (ending,), (thing,), without(things, thing))
    ask = "Which people does the text name?"
    return text, PassageQuestion(ask, (f"The text names {listed(names)}.",), tuple(names), tuple(things))
