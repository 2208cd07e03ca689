"""Questions on a passage of facts, with the evidence that settles them and the sentence that concludes.

What may live here: the kinds of questions and how each is worked out. It may not know sentence shapes of passages.

The evidence comes first and in one wording per kind, so that every step of an answer can be read off the passage or
off the step before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.demo.talks.passages import Fact, Passage, filled
from training.demo.talks.scenes import FactKind, NumberQuestions, PassageSubject
from training.demo.talks.talk import capital, listed

REFUSAL = "does not say"


@dataclass(frozen=True)
class PassageQuestion:
    """The question, the sentences that answer it (the last one concludes), what the conclusion must contain and what it
    may not."""

    ask: str
    answer: tuple[str, ...]
    result: tuple[str, ...]
    wrong: tuple[str, ...] = ()


Asker = Callable[[Random, Passage], "PassageQuestion | None"]


def others(passage: Passage, field: FactKind, *right: str) -> tuple[str, ...]:
    """The values of the field that could be mistaken for right ones; numbers are distinguished by the check itself."""
    return tuple(
        {fact.value: None for fact in passage.of(field) if fact.value not in right and not fact.value.isdigit()}
    )


def other_names(passage: Passage, *right: PassageSubject) -> tuple[str, ...]:
    return tuple(subject.name for subject in passage.subjects if subject not in right)


def refused(passage: Passage, ask: str, unsaid: str, *evidence: str, wrong: tuple[str, ...] = ()) -> PassageQuestion:
    return PassageQuestion(ask, (*evidence, f"The text {REFUSAL} {unsaid}."), (REFUSAL,), wrong)


def verdict(ask: str, evidence: list[str], yes: bool) -> PassageQuestion:
    right, wrong = ("yes", "no") if yes else ("no", "yes")
    return PassageQuestion(ask, (*evidence, f"So the answer is {right}."), (right,), (wrong, REFUSAL))


def told(passage: Passage, rng: Random) -> Fact:
    return rng.choice(passage.facts)


def unique(passage: Passage, fact: Fact) -> bool:
    return sum(other.value == fact.value for other in passage.of(fact.field)) == 1


def direct(rng: Random, passage: Passage) -> PassageQuestion:
    """A fact of a named subject."""
    fact = told(passage, rng)
    ask = capital(filled(rng.choice(fact.field.asks), fact.subject.name))
    return PassageQuestion(ask, (f"{fact.said}.",), (fact.value,), others(passage, fact.field, fact.value))


def described(rng: Random, passage: Passage) -> PassageQuestion:
    """All that the text says of some of its subjects, subject by subject."""
    told_of = list(dict.fromkeys(fact.subject for fact in passage.facts))
    asked = rng.sample(told_of, rng.randint(1, len(told_of)))
    facts = [fact for subject in asked for fact in passage.facts if fact.subject == subject]
    ask = rng.choice(("What does the text say of {}?", "Tell me all about {}.", "What do you know of {}?"))
    last = facts[-1]
    return PassageQuestion(
        ask.format(listed([subject.name for subject in asked])),
        tuple(f"{fact.said}." for fact in facts),
        (last.value,),
        others(passage, last.field, last.value),
    )


def missing(rng: Random, passage: Passage) -> PassageQuestion:
    """A fact that the text leaves out: of this subject, of all, or of somebody whom it does not name."""
    absent = [(s, f) for s in passage.subjects for f in passage.scene.fields if passage.find(s, f) is None]
    near = [(subject, field) for subject, field in absent if field in passage.fields]
    stranger = passage.scene.subjects(rng, 1)[0]
    if stranger.name not in [subject.name for subject in passage.subjects]:
        absent.append((stranger, rng.choice(passage.fields)))
    subject, field = rng.choice(near if near and rng.random() < 0.6 else absent[-1:] if rng.random() < 0.4 else absent)
    ask = capital(filled(rng.choice(field.asks), subject.name))
    return refused(passage, ask, filled(field.unsaid, subject.name), wrong=others(passage, field))


def reverse(rng: Random, passage: Passage) -> PassageQuestion | None:
    """Who has a value. The value stands next to the answer in the text, where it is easy to find."""
    fact = told(passage, rng)
    if not unique(passage, fact):
        return None
    ask = capital(filled(rng.choice(fact.field.reverse), "", fact.value))
    which = capital(filled(fact.field.which, "", fact.value))
    return PassageQuestion(
        ask, (f"{which} is {fact.subject.name}.",), (fact.subject.name,), other_names(passage, fact.subject)
    )


def reverse_missing(rng: Random, passage: Passage) -> PassageQuestion | None:
    """Who has a value that nobody has."""
    field = rng.choice(passage.fields)
    value = field.values(rng, 1)[0]
    if value in passage.text:
        return None
    ask = capital(filled(rng.choice(field.reverse), "", value))
    unsaid = filled(field.reverse[0], "", value).rstrip("?")
    return refused(passage, ask, unsaid[0].lower() + unsaid[1:], wrong=other_names(passage))


def hop(rng: Random, passage: Passage) -> PassageQuestion | None:
    """A fact about whoever has another value: first who that is, then the fact."""
    known = told(passage, rng)
    fields = [field for field in passage.scene.fields if field is not known.field]
    sought = rng.choice([f for f in passage.fields if f is not known.field] or fields)
    if not unique(passage, known) or known.field.name in ("age", "price"):
        return None
    which = filled(known.field.which, "", known.value)
    ask = capital(filled(rng.choice(sought.asks), which))
    bridge = f"{capital(which)} is {known.subject.name}."
    fact = passage.find(known.subject, sought)
    if fact is None:
        unsaid = filled(sought.unsaid, known.subject.name)
        return refused(passage, ask, unsaid, bridge, wrong=others(passage, sought))
    return PassageQuestion(ask, (bridge, f"{fact.said}."), (fact.value,), others(passage, sought, fact.value))


def yes_or_no(rng: Random, passage: Passage) -> PassageQuestion:
    """Whether a subject has a value, which is its own or another one's."""
    fact = told(passage, rng)
    asked = fact.value if rng.random() < 0.5 else rng.choice(passage.of(fact.field)).value
    ask = capital(filled(fact.field.yes, fact.subject.name, asked))
    return verdict(ask, [f"{fact.said}."], asked == fact.value)


def same(rng: Random, passage: Passage) -> PassageQuestion | None:
    """Whether two subjects share a value."""
    field = rng.choice(passage.fields)
    facts = passage.of(field)
    shared = [f for f in facts if not unique(passage, f)]
    pair = shared if len(shared) == 2 and rng.random() < 0.7 else facts
    if len(pair) < 2:
        return None
    one, other = rng.sample(pair, 2)
    ask = capital(filled(field.same, one.subject.name, other=other.subject.name))
    return verdict(ask, [f"{one.said}.", f"{other.said}."], one.value == other.value)


def count(rng: Random, passage: Passage) -> PassageQuestion | None:
    """How many subjects share a value: one line of evidence for each."""
    fact = told(passage, rng)
    if len(passage.of(fact.field)) < len({other.subject.name for other in passage.facts}):
        return None
    found = [other for other in passage.of(fact.field) if other.value == fact.value]
    if len(found) == 1 and rng.random() < 0.5:
        return None
    ask = filled(fact.field.many, "", fact.value)
    return PassageQuestion(ask, (*(f"{f.said}." for f in found), f"So the number is {len(found)}."), (str(len(found)),))


def numbered(rng: Random, passage: Passage) -> tuple[NumberQuestions, list[Fact]] | None:
    """The facts of a comparable field whose numbers are all different."""
    fields = [field for field in passage.fields if field.order and len(passage.of(field)) > 1]
    if not fields:
        return None
    field = rng.choice(fields)
    facts = passage.of(field)
    if field.order is None or len({fact.value for fact in facts}) < len(facts):
        return None
    return field.order, facts


def compared(rng: Random, passage: Passage) -> PassageQuestion | None:
    """Which of two is more: both numbers, which of them is greater, and whose it is."""
    found = numbered(rng, passage)
    if found is None:
        return None
    order, facts = found
    one, other = rng.sample(facts, 2)
    high, low = (one, other) if int(one.value) > int(other.value) else (other, one)
    ask = capital(filled(order.who_more, one.subject.name, other=other.subject.name))
    evidence = (f"{one.said}.", f"{other.said}.", f"{high.value} is more than {low.value}.")
    ending = f"So the answer is {high.subject.name}."
    return PassageQuestion(ask, (*evidence, ending), (high.subject.name,), other_names(passage, high.subject))


def is_more(rng: Random, passage: Passage) -> PassageQuestion | None:
    """Whether one is more than the other, as yes or no."""
    found = numbered(rng, passage)
    if found is None:
        return None
    order, facts = found
    one, other = rng.sample(facts, 2)
    yes = int(one.value) > int(other.value)
    link = "is more than" if yes else "is less than"
    ask = capital(filled(order.is_more, one.subject.name, other=other.subject.name))
    return verdict(ask, [f"{one.said}.", f"{other.said}.", f"{one.value} {link} {other.value}."], yes)


def extreme(rng: Random, passage: Passage) -> PassageQuestion | None:
    """The most or the least of all: every number, the greatest or smallest of them, and whose it is."""
    found = numbered(rng, passage)
    if found is None:
        return None
    order, facts = found
    if len(facts) < len({fact.subject.name for fact in passage.facts}):
        return None
    most = rng.random() < 0.5
    best = (max if most else min)(facts, key=lambda fact: int(fact.value))
    ask = order.most if most else order.least
    evidence = [f"{fact.said}." for fact in facts]
    step = f"The {'highest' if most else 'lowest'} number is {best.value}."
    return PassageQuestion(ask, (*evidence, step, f"So the answer is {best.subject.name}."), (best.subject.name,),
                    other_names(passage, best.subject))  # fmt: skip


def gap(rng: Random, passage: Passage) -> PassageQuestion | None:
    """By how much one is more than the other: both numbers and their difference."""
    found = numbered(rng, passage)
    if found is None:
        return None
    order, facts = found
    one, other = rng.sample(facts, 2)
    high, low = (one, other) if int(one.value) > int(other.value) else (other, one)
    difference = int(high.value) - int(low.value)
    ask = capital(filled(order.gap, high.subject.name, other=low.subject.name))
    evidence = (f"{high.said}.", f"{low.said}.", f"{high.value} - {low.value} = {difference}.")
    return PassageQuestion(ask, (*evidence, f"So the answer is {difference}."), (str(difference),))


def above(rng: Random, passage: Passage) -> PassageQuestion | None:
    """All whose number is at least a bound, each compared before the answer."""
    found = numbered(rng, passage)
    if found is None:
        return None
    order, facts = found
    if len(facts) < len({fact.subject.name for fact in passage.facts}):
        return None
    bound = max(1, int(rng.choice(facts).value) - rng.randint(1, 3))
    chosen = [fact for fact in facts if int(fact.value) > bound]
    if not chosen:
        return None
    lines = [
        f"{fact.subject.name}: {fact.value} is {'more' if fact in chosen else 'not more'} than {bound}."
        for fact in facts
    ]
    ask = filled(order.above, "", str(bound))
    ending = f"So the answer is {listed([fact.subject.name for fact in chosen])}."
    return PassageQuestion(ask, (*(capital(line) for line in lines), ending),
                    tuple(fact.subject.name for fact in chosen),
                    other_names(passage, *(fact.subject for fact in chosen)))  # fmt: skip
