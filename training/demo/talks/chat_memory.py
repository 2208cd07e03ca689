"""Talks in which later turns refer to earlier ones: what was stated, corrected, planned or explained, and what was not.

What may live here: such talks. It may not know the single exchanges that may stand between.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training.demo.talks.chat_steps import HOW_TO
from training.demo.talks.chat_topics import FACTS
from training.demo.talks.lexicon import DAYS, FOODS, HOBBIES, JOBS, PETS, city, names
from training.demo.talks.talk import Turn, a, capital, listed

Between = Callable[[Random], Turn]
ORDINALS = ("first", "second", "third", "fourth", "fifth")


def about_me(rng: Random) -> dict[str, tuple[str, tuple[str, ...], str]]:
    """What people say about themselves, how they ask for it later, and the answer."""
    own, pet_name, friend = names(rng, 3)
    home, job, pet, hobby, food = (
        city(rng), rng.choice(JOBS), rng.choice(PETS), rng.choice(HOBBIES), rng.choice(FOODS)
    )  # fmt: skip
    age = rng.randint(12, 80)
    return {
        "name": (f"my name is {own}", ("What is my name?", "Who am I?", "How am I called?"), f"Your name is {own}"),
        "city": (f"I live in {home}", ("Where do I live?", "In which city do I live?"), f"You live in {home}"),
        "job": (f"I work as {a(job)}", ("What is my job?", "What do I do for a living?"), f"You work as {a(job)}"),
        "pet": (
            f"I have {a(pet)} called {pet_name}",
            ("What is the name of my pet?", "How is my pet called?"),
            f"Your {pet} is called {pet_name}",
        ),
        "hobby": (f"my hobby is {hobby}", ("What is my hobby?", "Which hobby do I have?"), f"Your hobby is {hobby}"),
        "food": (
            f"I like to eat {food}",
            ("What do I like to eat?", "Which food do I like?"),
            f"You like to eat {food}",
        ),
        "friend": (
            f"my best friend is {friend}",
            ("Who is my best friend?", "What is the name of my best friend?"),
            f"Your best friend is {friend}",
        ),
        "age": (f"I am {age} years old", ("How old am I?", "What is my age?"), f"You are {age} years old"),
    }


def introduced(rng: Random, told: list[str], answers: list[str]) -> Turn:
    """Somebody states some facts; the assistant repeats them, because it will be asked for them."""
    greeting = rng.choice(("Hello! ", "Hi! ", "", ""))
    return f"{greeting}{capital(listed(told))}.", f"{greeting}{'. '.join(answers)}. How can I help you?"


def remembered(rng: Random, between: Between) -> tuple[Turn, ...]:
    """Facts are stated and later asked for; sometimes one that was not stated."""
    known = about_me(rng)
    kinds = rng.sample(list(known), rng.choice((1, 2, 2, 3)))
    turns = [introduced(rng, [known[kind][0] for kind in kinds], [known[kind][2] for kind in kinds])]
    if rng.random() < 0.35:
        turns.append(between(rng))
    opener = rng.choice(("", "Do you remember? ", "One question: "))
    if rng.random() < 0.25:
        kind = rng.choice([kind for kind in known if kind not in kinds])
        turns.append((opener + rng.choice(known[kind][1]), "I do not know that, because you have not told me."))
    else:
        kind = rng.choice(kinds)
        turns.append((opener + rng.choice(known[kind][1]), f"{known[kind][2]}."))
    return tuple(turns)


def corrected(rng: Random, between: Between) -> tuple[Turn, ...]:
    """A fact is stated, then corrected; the later one counts."""
    known, later = about_me(rng), about_me(rng)
    kind = rng.choice([kind for kind in known if known[kind][2] != later[kind][2]])
    turns = [introduced(rng, [known[kind][0]], [known[kind][2]])]
    wrong = rng.choice(("Sorry, that was wrong: {}.", "I made a mistake: {}.", "No, wait: {}.")).format(later[kind][0])
    turns.append((wrong, f"I see. {later[kind][2]}."))
    if rng.random() < 0.3:
        turns.append(between(rng))
    turns.append((rng.choice(later[kind][1]), f"{later[kind][2]}."))
    return tuple(turns)


def plan_changed(rng: Random, between: Between) -> tuple[Turn, ...]:
    """A plan for a day, and the same plan with one thing changed."""
    day, other_day = rng.sample(DAYS, 2)
    one, two, new = rng.sample(HOBBIES, 3)
    food, other_food = rng.sample(FOODS, 2)

    def laid_out(when: str, first: str, second: str, dinner: str) -> str:
        return f"Here is the plan for {when}:\n\n- Morning: {first}\n- Afternoon: {second}\n- Evening: {dinner}"

    ask = rng.choice(
        ("Plan my {d} with {o}, {t} and {f}.", "Make a plan for {d}: first {o}, then {t}, and {f} for dinner.")
    )
    turns = [(ask.format(d=day, o=one, t=two, f=food), laid_out(day, one, two, food))]
    change, changed = rng.choice(
        (
            (f"Make it {other_day} instead.", laid_out(other_day, one, two, food)),
            (f"I would rather have {other_food} in the evening.", laid_out(day, one, two, other_food)),
            (f"Please change {one} to {new}.", laid_out(day, new, two, food)),
            (f"No {two}, please. I prefer {new}.", laid_out(day, one, new, food)),
            ("Swap morning and afternoon.", laid_out(day, two, one, food)),
        )
    )
    return (*turns, (change, changed))


def numbered(task: str, steps: list[str]) -> str:
    lines = "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))
    return f"Here is how to {task}:\n\n{lines}"


def opened(rng: Random, ask: str) -> str:
    """The question after one of many openings, which do not affect the answer."""
    return rng.choice(("", "Tell me: ", "One question: ", "Please help me. ", "I wonder: ", "Quick question: ")) + ask


def shorter(rng: Random, between: Between) -> tuple[Turn, ...]:
    """An explanation or steps, and then a shorter version of the same."""
    if rng.random() < 0.5:
        question = rng.choice(list(FACTS))
        short, more = FACTS[question]
        ask = rng.choice(("Shorter, please.", "Can you say that in one sentence?", "That is too long for me."))
        return (opened(rng, question), f"{short} {more}"), (ask, short)
    task = rng.choice(list(HOW_TO))
    steps = list(HOW_TO[task])
    ask = rng.choice(("Shorter, please: three steps.", "Can you say that in three steps?"))
    first = rng.choice(("How do I {} in five steps?", "Can you explain how to {} in five steps?")).format(task)
    return (opened(rng, first), numbered(task, steps)), (ask, numbered(task, [*steps[:2], steps[-1]]))


def step_asked_for(rng: Random, between: Between) -> tuple[Turn, ...]:
    """Steps, and then a question about one of them."""
    task = rng.choice(list(HOW_TO))
    steps = list(HOW_TO[task])
    count = rng.choice((3, 4, 5))
    chosen = [*steps[: count - 1], steps[-1]]
    number = rng.randrange(count)
    ask = rng.choice(("What was the {} step?", "Please say the {} step again.", "I did not get the {} step."))
    first = f"How do I {task} in {('three', 'four', 'five')[count - 3]} steps?"
    return (opened(rng, first), numbered(task, chosen)), (
        ask.format(ORDINALS[number]),
        f"The {ORDINALS[number]} step: {chosen[number]}",
    )


def not_told(rng: Random, between: Between) -> tuple[Turn, ...]:
    """Questions about people and things that the assistant has not been told of."""
    name = names(rng, 1)[0]
    ask, what = rng.choice(
        (
            ("Where does {n} live?", "where {n} lives"),
            ("How old is {n}?", "how old {n} is"),
            ("What is the phone number of {n}?", "the phone number of {n}"),
            ("What did {n} do yesterday?", "what {n} did yesterday"),
            ("Who is the best friend of {n}?", "who the best friend of {n} is"),
            ("What is the name of the dog of {n}?", "the name of the dog of {n}"),
            ("When is the birthday of {n}?", "when the birthday of {n} is"),
            ("What is the job of {n}?", "which job {n} has"),
            ("Where is {n} now?", "where {n} is now"),
            ("How much money does {n} have?", "how much money {n} has"),
        )
    )
    opener = rng.choice(("", "Tell me: ", "Do you know this? ", "One question: ", "I have a question. "))
    return ((opener + ask.format(n=name), f"I do not know {what.format(n=name)}, because nobody has told me."),)
