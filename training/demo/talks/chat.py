"""The category `chat`: how-to, comparisons, explanations, advice, gifts, plans, and talks that refer back.

What may live here: how people ask and how the assistant answers. The content is `chat_topics`; it may not know tasks
or models.
"""

from __future__ import annotations

from random import Random

from training.demo.talks import chat_memory as memory
from training.demo.talks.chat_steps import HOW_TO
from training.demo.talks.chat_topics import FACTS, GIFTS, PAIRS, TROUBLES
from training.demo.talks.lexicon import DAYS, FOODS, HOBBIES, NUMBER_WORDS, person
from training.demo.talks.lexicon import city as city_of
from training.demo.talks.talk import Talk, Turn, capital, listed

RELATIVES = ("brother", "sister", "mother", "father", "uncle", "aunt", "friend", "neighbour", "teacher", "grandmother")
WOMEN_OF = {"brother": "sister", "father": "mother", "uncle": "aunt"}
MEN_OF = {"sister": "brother", "mother": "father", "aunt": "uncle", "grandmother": "grandfather"}
GREETINGS = ("", "", "", "Hello! ", "Hi! ", "Hey there! ", "Good morning. ", "Good evening. ")


def greeted(rng: Random, text: str) -> tuple[str, str]:
    """The text with a greeting before it, and the answer's own greeting, which is the same."""
    greeting = rng.choice(GREETINGS)
    return greeting + text, greeting


def how_to(rng: Random) -> Turn:
    """Steps in the number and the form that is asked for."""
    task = rng.choice(list(HOW_TO))
    number = rng.choice((0, 3, 4, 5))
    relative = rng.choice(RELATIVES)
    ask = rng.choice(
        (
            "How do I {task}{in_steps}?",
            "Can you explain how to {task}{in_steps}?",
            "I want to {task} for my {person}. How does that work{in_steps}?",
            "Tell me{in_steps} how to {task}, please.",
            "My {person} wants to know how to {task}{in_steps}.",
            "I have never tried to {task}. Can you help me{in_steps}?",
        )
    ).format(task=task, person=relative, in_steps=f" in {NUMBER_WORDS[number]} steps" if number else "")
    prose = rng.random() < 0.25
    if prose:
        ask += " No list, please."
    ask, back = greeted(rng, ask)
    wanted = number or 4
    steps = [*HOW_TO[task][: wanted - 1], HOW_TO[task][-1]]
    if prose:
        words = ("First, ", "Then ", "After that, ", "Next, ")
        told = [w + s[0].lower() + s[1:] for w, s in zip(words, steps[:-1], strict=False)]
        return ask, f"{back}{' '.join(told)} At the end, {steps[-1][0].lower()}{steps[-1][1:]}"
    intro = f"Here is how to {task}:"
    body = "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))
    end = f"\n\nYour {relative} will be glad." if f"my {relative}" in ask else ""
    return ask, f"{back}{intro}\n\n{body}{end}"


def comparison(rng: Random) -> Turn:
    """Which of two things suits somebody who states a need."""
    pair = rng.choice(list(PAIRS))
    need = rng.choice(list(PAIRS[pair]))
    one, two = pair if rng.random() < 0.5 else pair[::-1]
    city, day = city_of(rng), rng.choice(DAYS)
    ask = rng.choice(
        (
            f"Which is better, {one} or {two}? I {need}.",
            f"I {need}. Should I choose {one} or {two}?",
            f"What would you take if you {need}: {one} or {two}?",
            f"I am in {city} and I {need}. Is {one} or {two} better for me?",
            f"For {day} I must decide between {one} and {two}. I {need}.",
        )
    )
    ask, back = greeted(rng, ask)
    which, why = PAIRS[pair][need]
    best = pair[which]
    other = pair[1 - which]
    rest = [(n, w) for n, (k, w) in PAIRS[pair].items() if k != which]
    answer = f"Since you {need}, I would choose {best}, because {why}."
    if rest:
        answer += f" {capital(other)} would be right for those who {rest[0][0]}, because {rest[0][1]}."
    if city in ask:
        answer += f" Enjoy your time in {city}!"
    if day in ask:
        answer += f" Have a good {day}!"
    return ask, back + answer


def fact(rng: Random) -> Turn:
    """A short explanation, with or without the example."""
    question = rng.choice(list(FACTS))
    short, more = FACTS[question]
    age = rng.randint(5, 12)
    relative = rng.choice(RELATIVES)
    form = rng.choice(
        (
            "{q}",
            "{q} Answer in one sentence.",
            "{q} Give me an example, too.",
            "My son is {age} years old and asks: {q}",
            "My {person} asked me: {q}",
            "I often wonder: {q} Please explain.",
        )
    )
    ask, back = greeted(rng, form.format(q=question, age=age, person=relative))
    if "one sentence" in ask:
        return ask, f"{back}{short}"
    if "{age}" in form:
        return ask, f"{back}For a child of {age} I would say it like this: {short} {more}"
    if "{person}" in form:
        return ask, f"{back}You can tell your {relative} this: {short} {more}"
    return ask, f"{back}{short} {more}"


def advice(rng: Random) -> Turn:
    """Sympathy and one, two or three pieces of advice."""
    trouble = rng.choice(list(TROUBLES))
    sympathy, *tips = TROUBLES[trouble]
    count = rng.choice((1, 2, 3))
    since, relative = rng.choice(DAYS), rng.choice(RELATIVES)
    form = rng.choice(
        (
            "I {t}. What can I do?",
            "I {t}. Do you have {n} for me?",
            "What should I do? I {t}.",
            "My {p} says that I should talk to you: I {t}.",
            "It started on {d}: I {t}. Can you give me {n}?",
            "I {t} and my {p} worries about me. Give me {n}.",
        )
    )
    number = ("one tip", "two tips", "three tips")[count - 1]
    ask, back = greeted(rng, form.format(t=trouble, n=number, p=relative, d=since))
    if "{n}" not in form:
        count = 2
    if count == 1:
        said = f"My tip: {tips[0]}."
    elif count == 2:
        said = f"You could {listed(tips[:2])}."
    else:
        said = "Try this:\n\n" + "\n".join(f"- {capital(tip)}." for tip in tips[:3])
    end = f" Say hello to your {relative}!" if "{p}" in form and "\n" not in said else ""
    return ask, f"{back}{sympathy} {said}{end}"


def gift(rng: Random) -> Turn:
    """A present for somebody with two interests and for some money."""
    who, (one, two), money = rng.choice(RELATIVES), rng.sample(list(GIFTS), 2), rng.choice((10, 20, 30, 50, 80))
    name = person(rng)
    who = (WOMEN_OF if name.they == "she" else MEN_OF).get(who, who)
    form = rng.choice(
        (
            "What can I give my {who}? The person likes {one} and {two}, and I have {money} dollars.",
            "I need a present for my {who} {name}, who likes {one}. I can spend {money} dollars.",
            "{name} has a birthday and loves {one} and {two}. Do you have an idea for {money} dollars?",
            "Do you have two ideas for a gift? It is for {name}, who likes {one} but not {two}.",
        )
    )
    ask, back = greeted(rng, form.format(who=who, one=one, two=two, money=money, name=name.name))
    first, second = GIFTS[one]
    target = name.name if "{name}" in form else f"your {who}"
    if "but not" in form:
        why = f"Both go well with {one}, and they have nothing to do with {two}."
        return ask, f"{back}For {target} I would look for {first} or {second}. {why}"
    if "{two}" in form:
        reach = f"For {money} dollars you can get {'both' if money >= 50 else 'one of them'}."
        return ask, f"{back}For {target} I have two ideas: {first} for {one}, or {GIFTS[two][0]} for {two}. {reach}"
    chosen = second if money >= 30 else first
    reach = f"{money} dollars {'are more than enough' if money >= 50 else 'should be enough'} for that."
    return ask, f"{back}Since {target} likes {one}, {chosen} would be nice. {reach} I hope {name.they} will like it!"


def plan(rng: Random) -> Turn:
    """A plan for a day, from what somebody likes and eats and where they are."""
    city, day, food = city_of(rng), rng.choice(DAYS), rng.choice(FOODS)
    one, two = rng.sample(HOBBIES, 2)
    name = person(rng).name
    form = rng.choice(
        (
            "Plan a {day} in {city} for me. I like {one}, {two} and {food}.",
            "I will be in {city} on {day} with {name}. We like {one} and {food}. What should we do?",
            "What can I do on {day}? I enjoy {one} and {two}, and for dinner I want {food}.",
        )
    )
    ask, back = greeted(rng, form.format(city=city, day=day, food=food, one=one, two=two, name=name))
    where = f" in {city}" if "{city}" in form else ""
    party = f"you and {name}" if "{name}" in form else "you"
    if "{two}" not in form:
        morning = f"On {day} {party} could spend the morning with {one}."
        later = f"Later look for a quiet place{where} where they serve {food}."
        return ask, f"{back}{morning} {later} In the evening, take a walk and talk about the day."
    items = (
        f"Morning: {one}, while you are fresh.",
        f"Afternoon: {two}, and a short rest.",
        f"Evening: {food}{' in a small place' + where if where else ' at home'}.",
    )
    return ask, f"{back}Here is a plan for {day}{where}:\n\n" + "\n".join(f"- {item}" for item in items)


SINGLE = (how_to, comparison, fact, advice, gift, plan)


def small_exchange(rng: Random) -> Turn:
    return rng.choice(SINGLE)(rng)


LATER = {
    "remembered": memory.remembered,
    "corrected": memory.corrected,
    "plan changed": memory.plan_changed,
    "shorter": memory.shorter,
    "step asked for": memory.step_asked_for,
    "not told": memory.not_told,
}


def make(rng: Random) -> Talk:
    """One to three exchanges; in a third of the talks later ones refer to earlier ones."""
    if rng.random() < 0.36:
        family = rng.choice(list(LATER))
        return Talk(family, LATER[family](rng, small_exchange))
    makers = rng.sample(SINGLE, 1 if rng.random() < 0.85 else 2)
    return Talk(makers[0].__name__.replace("_", " "), tuple(maker(rng) for maker in makers))
