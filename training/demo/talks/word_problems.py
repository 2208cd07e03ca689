"""The category `math`: word problems of two to four steps, with the working and a sentence that gives the result.

What may live here: stories around numbers and the steps that solve them. It may not know how answers are judged.

Numbers stay modest, so that a very small model can learn the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.demo.talks import arithmetic
from training.demo.talks.lexicon import COUNTED, DAYS, PEOPLE, Person
from training.demo.talks.talk import Category, Maker, Talk, capital, mixture

BRIEF = "Keep it brief."
REQUESTS = ("", "", "", "Show your work.", "Explain each step.", "Number the steps.", BRIEF)
CONTAINERS = ("boxes", "bags", "baskets", "packs", "jars", "trays")
GOODS = ("pen", "cup", "ball", "toy", "hat", "lamp", "scarf", "plant", "book", "ticket", "cap", "mug", "kite", "plate")


@dataclass(frozen=True)
class WorkingStep:
    """One line of working: what is computed, and how, such as "9 + 5 = 14"."""

    what: str
    how: str


@dataclass(frozen=True)
class WordProblem:
    """A story that ends in a question, its steps, and the sentence without "so" that answers it."""

    story: str
    steps: tuple[WorkingStep, ...]
    conclusion: str
    result: int


def solution(problem: WordProblem, request: str) -> str:
    """The layout follows the request, so that a model that sees the prompt can know it."""
    steps = problem.steps
    so = f"{'Answer:' if request == BRIEF else 'So'} {problem.conclusion}."
    if request == "Number the steps.":
        return "\n".join([*(f"{n}. {capital(step.what)}: {step.how}" for n, step in enumerate(steps, 1)), capital(so)])
    if request in ("", "Show your work."):
        return "\n".join([*(f"{capital(step.what)}: {step.how}." for step in steps), so])
    if request == BRIEF:
        return " ".join([*(f"{step.how}." for step in steps), so])
    openers = ("First, we find", "Next, we find", "Then we find", "After that, we find", "Now we find")
    return " ".join([*(f"{o} {step.what}: {step.how}." for o, step in zip(openers, steps, strict=False)), so])


def changing_amount(rng: Random) -> WordProblem:
    """One amount that increases and decreases, in two to four events."""
    hero, friend = rng.sample(PEOPLE, 2)
    thing = rng.choice(COUNTED)
    start = now = rng.randint(6, 40)
    told = [f"{hero.name} has {start} {thing}."]
    steps: list[WorkingStep] = []
    kinds = rng.sample(("gain", "lose", "packs", "half", "double", "give"), rng.choice((2, 2, 3, 3, 4)))
    for kind in kinds:
        before = now
        who = capital(hero.they)
        if kind == "gain":
            more = rng.randint(3, 25)
            now += more
            told.append(f"{who} {rng.choice(('buys', 'finds', 'gets'))} {more} more.")
            steps.append(WorkingStep(f"the {thing} after {hero.they} gets {more} more", f"{before} + {more} = {now}"))
        elif kind in ("lose", "give") and now > 3:
            less = rng.randint(2, min(20, now - 1))
            now -= less
            told.append(f"{who} loses {less}." if kind == "lose" else f"{who} gives {less} to {friend.name}.")
            gone = "are lost" if kind == "lose" else f"go to {friend.name}"
            steps.append(WorkingStep(f"what is left when {less} {gone}", f"{before} - {less} = {now}"))
        elif kind == "packs":
            packs, each, box = rng.randint(2, 6), rng.randint(2, 10), rng.choice(CONTAINERS)
            now += packs * each
            told.append(f"{who} buys {packs} {box} with {each} {thing} in each.")
            steps.append(WorkingStep(f"the {thing} in the {box}", f"{packs} * {each} = {packs * each}"))
            steps.append(WorkingStep("the new total", f"{before} + {packs * each} = {now}"))
        elif kind == "double" and now <= 50:
            now *= 2
            told.append(f"Then the number of {hero.their} {thing} doubles.")
            steps.append(WorkingStep("the doubled number", f"{before} * 2 = {now}"))
        elif kind == "half" and now % 2 == 0:
            now //= 2
            told.append(f"{who} puts half of them away.")
            steps.append(WorkingStep("the other half", f"{before} / 2 = {now}"))
    if not steps:
        return changing_amount(rng)
    ask = rng.choice((f"How many {thing} does {hero.name} have now?", f"How many {thing} does {hero.name} have left?"))
    return WordProblem(f"{' '.join(told)} {ask}", tuple(steps), f"{hero.name} now has {now} {thing}", now)


def comparing_people(rng: Random) -> WordProblem:
    """Three people; each amount is given in terms of another person's."""
    first, second, third = rng.sample(PEOPLE, 3)
    thing = rng.choice(COUNTED)
    one = rng.randint(4, 30)
    told = [f"{first.name} has {one} {thing}."]

    def related(person: Person, other: Person, base: int) -> tuple[int, str, WorkingStep]:
        kind = rng.choice(("more", "fewer", "times", "half"))
        if kind == "half" and base % 2 == 0:
            said, value, how = "half as many", base // 2, f"{base} / 2 = {base // 2}"
        elif kind == "times" and base <= 25:
            times, word = rng.choice(((2, "twice"), (3, "three times")))
            said, value, how = f"{word} as many", base * times, f"{base} * {times} = {base * times}"
        elif kind == "fewer" and base > 4:
            less = rng.randint(2, base - 2)
            said, value, how = f"{less} fewer", base - less, f"{base} - {less} = {base - less}"
        else:
            more = rng.randint(2, 20)
            said, value, how = f"{more} more", base + more, f"{base} + {more} = {base + more}"
        link = "as" if said.endswith("many") else "than"
        return value, f"{person.name} has {said} {link} {other.name}.", WorkingStep(f"what {person.name} has", how)

    two, said_two, step_two = related(second, first, one)
    base, base_value = rng.choice(((first, one), (second, two)))
    three, said_three, step_three = related(third, base, base_value)
    told += [said_two, said_three]
    steps = [step_two, step_three]
    goal = rng.choice(("total", "total", "difference", "pair"))
    if goal == "difference" and three != one:
        high, low = ((third, three), (first, one)) if three > one else ((first, one), (third, three))
        result = high[1] - low[1]
        ask = f"How many more {thing} does {high[0].name} have than {low[0].name}?"
        steps.append(WorkingStep("the difference", f"{high[1]} - {low[1]} = {result}"))
        end = f"{high[0].name} has {result} more {thing} than {low[0].name}"
    elif goal == "pair":
        result = two + three
        ask = f"How many {thing} do {second.name} and {third.name} have together?"
        steps.append(WorkingStep("the sum of both", f"{two} + {three} = {result}"))
        end = f"{second.name} and {third.name} have {result} {thing} together"
    else:
        result = one + two + three
        ask = f"How many {thing} do they have in all?"
        steps.append(WorkingStep("the first two together", f"{one} + {two} = {one + two}"))
        steps.append(WorkingStep("all three together", f"{one + two} + {three} = {result}"))
        end = f"they have {result} {thing} in all"
    return WordProblem(f"{' '.join(told)} {ask}", tuple(steps), end, result)


def shopping(rng: Random) -> WordProblem:
    """Unit prices, amounts, perhaps a discount, and change."""
    hero = rng.choice(PEOPLE)
    goods = rng.sample(GOODS, 2)
    prices = [rng.randint(2, 12) for _ in goods]
    amounts = [rng.randint(2, 6) for _ in goods]
    costs = [price * amount for price, amount in zip(prices, amounts, strict=True)]
    total = sum(costs)
    told = (
        f"A {goods[0]} costs {prices[0]} dollars and a {goods[1]} costs {prices[1]} dollars. "
        f"{hero.name} buys {amounts[0]} {goods[0]}s and {amounts[1]} {goods[1]}s."
    )
    steps = [
        WorkingStep(f"the price of the {good}s", f"{amount} * {price} = {cost}")
        for good, amount, price, cost in zip(goods, amounts, prices, costs, strict=True)
    ]
    steps.append(WorkingStep("the price of everything", f"{costs[0]} + {costs[1]} = {total}"))
    goal = rng.choice(("total", "change", "left", "coupon"))
    if goal == "total":
        ask, end, result = "How much does that cost?", f"{hero.name} pays {total} dollars", total
    elif goal == "coupon":
        off = rng.randint(2, 10)
        result = total - off
        told += f" A coupon takes {off} dollars off."
        ask, end = f"How much does {hero.they} pay?", f"{hero.name} pays {result} dollars"
        steps.append(WorkingStep("the price after the coupon", f"{total} - {off} = {result}"))
    else:
        given = min(x for x in (20, 50, 80, 100, 120, 150, 200) if x > total)
        result = given - total
        if goal == "change":
            told += f" {capital(hero.they)} pays with {given} dollars."
            ask, end = "How much change is there?", f"{hero.name} gets {result} dollars back"
        else:
            told = f"{hero.name} has {given} dollars. {told}"
            ask, end = f"How much money does {hero.they} have left?", f"{hero.name} has {result} dollars left"
        steps.append(WorkingStep("what remains", f"{given} - {total} = {result}"))
    return WordProblem(f"{told} {ask}", tuple(steps), end, result)


def sharing(rng: Random) -> WordProblem:
    """Containers are emptied, some go away, the rest is divided without a remainder."""
    hero = rng.choice(PEOPLE)
    thing, box = rng.choice(COUNTED), rng.choice(CONTAINERS)
    groups, each = rng.randint(3, 9), rng.randint(4, 12)
    total = groups * each
    fair = [(n, s) for n in range(2, 9) for s in range(2, 20) if 0 <= total - n * s < 25]
    sharers, share = rng.choice(fair)
    gone = total - sharers * share
    told = f"{hero.name} has {groups} {box} with {each} {thing} in each."
    steps = [WorkingStep(f"all the {thing}", f"{groups} * {each} = {total}")]
    if gone:
        told += f" {rng.choice(('Of these, {} are broken.', 'Then {} get lost.', 'First {} are sold.')).format(gone)}"
        steps.append(WorkingStep("what is left", f"{total} - {gone} = {sharers * share}"))
    who = rng.choice(("children", "friends", "families", "neighbours"))
    steps.append(WorkingStep(f"the share of each of the {sharers} {who}", f"{sharers * share} / {sharers} = {share}"))
    told += f" {'The rest is' if gone else 'They are'} shared equally by {sharers} {who}."
    ask = "How many does each of them get?"
    return WordProblem(f"{told} {ask}", tuple(steps), f"each one gets {share} {thing}", share)


def rates(rng: Random) -> WordProblem:
    """A number per day or per hour, for some time, towards a goal."""
    hero = rng.choice(PEOPLE)
    verb, thing, unit = rng.choice(
        (("reads", "pages", "day"), ("walks", "miles", "day"), ("bakes", "cakes", "hour"), ("plants", "trees", "day"),
         ("saves", "dollars", "week"), ("earns", "dollars", "hour"), ("writes", "letters", "week"),
         ("picks", "apples", "hour"), ("drives", "miles", "hour"), ("learns", "words", "day"))
    )  # fmt: skip
    rate, time, extra = rng.randint(3, 15), rng.randint(2, 9), rng.randint(2, 15)
    done = rate * time
    told = f"{hero.name} {verb} {rate} {thing} every {unit} for {time} {unit}s."
    steps = [WorkingStep(f"the {thing} in {time} {unit}s", f"{rate} * {time} = {done}")]
    goal = rng.choice(("plus", "remaining", "second rate", "how long"))
    if goal == "plus":
        result = done + extra
        told += f" On {rng.choice(DAYS)} {hero.they} adds {extra} more {thing}."
        steps.append(WorkingStep(f"the sum with the {extra} more", f"{done} + {extra} = {result}"))
        ask, end = f"How many {thing} is that in all?", f"the total is {result} {thing}"
    elif goal == "remaining":
        result = extra + rng.randint(0, 20)
        told += f" {capital(hero.their)} goal is {done + result} {thing}."
        steps.append(WorkingStep("what is missing", f"{done + result} - {done} = {result}"))
        ask, end = f"How many {thing} are still missing?", f"{hero.name} still needs {result} {thing}"
    elif goal == "how long":
        more = rng.randint(2, 6)
        told += f" {capital(hero.their)} goal is {done + rate * more} {thing}."
        result = more
        steps.append(WorkingStep("what is missing", f"{done + rate * more} - {done} = {rate * more}"))
        steps.append(WorkingStep(f"the {unit}s for that", f"{rate * more} / {rate} = {more}"))
        ask, end = f"How many more {unit}s does {hero.they} need?", f"{hero.name} needs {more} more {unit}s"
    else:
        rate2, time2 = rng.randint(2, 12), rng.randint(2, 6)
        result = done + rate2 * time2
        told += f" After that it is only {rate2} {thing} every {unit} for {time2} {unit}s."
        steps.append(WorkingStep(f"the {thing} in the other {time2} {unit}s", f"{rate2} * {time2} = {rate2 * time2}"))
        steps.append(WorkingStep("both together", f"{done} + {rate2 * time2} = {result}"))
        ask, end = f"How many {thing} is that in all?", f"the total is {result} {thing}"
    return WordProblem(f"{told} {ask}", tuple(steps), end, result)


def ages(rng: Random) -> WordProblem:
    """Two people with related ages, asked for in some years or as a sum."""
    one, other = rng.sample(PEOPLE, 2)
    age, years = rng.randint(4, 30), rng.randint(2, 12)
    told = f"{one.name} is {age} years old."
    if rng.random() < 0.5:
        times, word = rng.choice(((2, "twice"), (3, "three times")))
        older = age * times
        told += f" {other.name} is {word} as old."
        steps = [WorkingStep(f"the age of {other.name}", f"{age} * {times} = {older}")]
    else:
        gap = rng.randint(2, 20)
        older = age + gap
        told += f" {other.name} is {gap} years older."
        steps = [WorkingStep(f"the age of {other.name}", f"{age} + {gap} = {older}")]
    if rng.random() < 0.5:
        result = older + years
        told += f" How old is {other.name} in {years} years?"
        steps.append(WorkingStep(f"the age in {years} years", f"{older} + {years} = {result}"))
        return WordProblem(told, tuple(steps), f"{other.name} is {result} years old then", result)
    result = age + older
    told += " How many years are they old together?"
    steps.append(WorkingStep("both ages together", f"{age} + {older} = {result}"))
    return WordProblem(told, tuple(steps), f"together they are {result} years old", result)


def teams(rng: Random) -> WordProblem:
    """Groups of people who each bring something, some of which gets lost."""
    thing = rng.choice(COUNTED)
    groups, people, each = rng.randint(2, 6), rng.randint(2, 6), rng.randint(2, 5)
    everybody, brought = groups * people, groups * people * each
    told = f"{groups} teams of {people} children meet. Each child brings {each} {thing}."
    steps = [
        WorkingStep("all the children", f"{groups} * {people} = {everybody}"),
        WorkingStep(f"all the {thing}", f"{everybody} * {each} = {brought}"),
    ]
    result = brought
    if rng.random() < 0.5:
        gone = rng.randint(1, brought - 1)
        result = brought - gone
        told += f" They lose {gone} of them."
        steps.append(WorkingStep("what is left", f"{brought} - {gone} = {result}"))
    told += f" How many {thing} do they have?"
    return WordProblem(told, tuple(steps), f"they have {result} {thing}", result)


def bus(rng: Random) -> WordProblem:
    """Passengers of a bus that get on and off at one or two stops."""
    now = rng.randint(8, 40)
    told, steps = [f"A bus leaves with {now} passengers."], []
    for place in ("first", "second")[: rng.choice((1, 2))]:
        off, on = rng.randint(1, now - 1), rng.randint(2, 15)
        told.append(f"At the {place} stop {off} get off and {on} get on.")
        steps.append(WorkingStep(f"who stays at the {place} stop", f"{now} - {off} = {now - off}"))
        steps.append(WorkingStep(f"the passengers after the {place} stop", f"{now - off} + {on} = {now - off + on}"))
        now += on - off
    ask = "How many passengers are on the bus now?"
    return WordProblem(f"{' '.join(told)} {ask}", tuple(steps), f"there are now {now} passengers", now)


def asked(problems: Callable[[Random], WordProblem]) -> Maker:
    """Talks about problems of one kind; the result is the number of the last sentence."""

    def make(rng: Random) -> Talk:
        problem = problems(rng)
        request = rng.choice(REQUESTS)
        prompt = f"{problem.story} {request}".strip()
        return Talk("", ((prompt, solution(problem, request)),), (str(problem.result),))

    return make


CATEGORY = Category(
    tasks=mixture(
        {
            "changing amount": (asked(changing_amount), 1),
            "comparing people": (asked(comparing_people), 1),
            "shopping": (asked(shopping), 1),
            "sharing": (asked(sharing), 1),
            "rates": (asked(rates), 1),
        }
    ),
    exercises=arithmetic.EXERCISES,
    held_out=mixture({"ages": (asked(ages), 1), "teams": (asked(teams), 1), "bus": (asked(bus), 1)}),
    task_share=0.6,
)
