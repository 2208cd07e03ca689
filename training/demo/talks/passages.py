"""A passage of facts drawn from a scene, and its text: grouped with pronouns or scattered, with irrelevant sentences.

What may live here: drawing facts and laying them out. It may not know questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from random import Random

from training.demo.talks.scenes import FactKind, PassageKind, PassageSubject
from training.demo.talks.talk import a, capital

IDLE = (
    "The weather was fine that day.", "Nobody was in a hurry.", "It rained a little in the morning.",
    "The birds were singing.", "That is how it has always been.", "Not much happens here.", "The sun was shining.",
    "The streets were quiet.", "There was snow on the roofs.", "Everybody knows that.", "It is a small world.",
    "A bell rang in the distance.", "The wind was cold.", "Some things never change.", "That was in spring.",
    "Somebody laughed.", "The old clock had stopped.", "All this is well known.", "Here is some more.",
)  # fmt: skip


@dataclass(frozen=True)
class Fact:
    """One fact of a passage; a fact that the text leaves out is not drawn at all."""

    subject: PassageSubject
    field: FactKind
    value: str

    @property
    def said(self) -> str:
        """The fact as an answer words it, without a full stop."""
        return capital(filled(self.field.said, self.subject.name, self.value))


@dataclass(frozen=True)
class Passage:
    """Everything that one passage states, in its order, and its text."""

    scene: PassageKind
    subjects: tuple[PassageSubject, ...]
    fields: tuple[FactKind, ...]
    facts: tuple[Fact, ...]
    text: str

    def find(self, subject: PassageSubject, field: FactKind) -> Fact | None:
        return next((fact for fact in self.facts if fact.subject == subject and fact.field is field), None)

    def of(self, field: FactKind) -> list[Fact]:
        return [fact for fact in self.facts if fact.field is field]


def filled(pattern: str, subject: str, value: str = "", other: str = "", possessive: str = "") -> str:
    return pattern.format(s=subject, v=value, a=a(value) if value else "", o=other, p=possessive or f"{subject}'s")


def draw_passage(rng: Random, scene: PassageKind) -> Passage:
    """Two to four subjects with one to three facts each; sometimes two share a value, and sometimes one fact is left
    out."""
    count = rng.choice((2, 3, 3, 4))
    subjects = scene.subjects(rng, count)
    fields = rng.sample(scene.fields, rng.choice((1, 2, 2)) if count == 4 else rng.choice((2, 2, 3)))
    facts = []
    for field in fields:
        values = field.values(rng, count)
        if count > 2 and rng.random() < 0.2:
            values[0] = values[1]
        rng.shuffle(values)
        facts += [Fact(subject, field, value) for subject, value in zip(subjects, values, strict=True)]
    if len(facts) > 3 and rng.random() < 0.4:
        facts.remove(rng.choice(facts))
    rng.shuffle(facts)
    scattered = rng.random() < 0.4
    if not scattered:
        order = rng.sample(subjects, count)
        facts.sort(key=lambda fact: order.index(fact.subject))
    return Passage(scene, tuple(subjects), tuple(fields), tuple(facts), passage_text(rng, facts, scattered))


def passage_text(rng: Random, facts: list[Fact], scattered: bool) -> str:
    """The facts in the given order."""
    if scattered:
        sentences = [[one_sentence(rng, fact, named=True)] for fact in facts]
    else:
        sentences = [grouped(rng, list(group)) for _, group in groupby(facts, key=lambda fact: fact.subject)]
    parts = [part for part in sentences if part]
    for _ in range(rng.choice((0, 0, 1, 2))):
        parts.insert(rng.randint(0, len(parts)), [rng.choice(IDLE)])
    return " ".join(sentence for part in parts for sentence in part)


def grouped(rng: Random, facts: list[Fact]) -> list[str]:
    """The facts of one subject: the first sentence names it, later ones may say "she"; two may share a sentence."""
    left = facts[::-1]
    told: list[str] = []
    while left:
        named = not told or rng.random() < 0.3
        fact = left.pop()
        shape = rng.choice(fact.field.shapes)
        more = rng.choice(left[-1].field.shapes) if left and rng.random() < 0.6 else ""
        joined = shape.startswith("{s} ") and more.startswith("{s} ") and shape.split()[1] != more.split()[1]
        sentence = clause(shape, fact, named)
        if joined:
            sentence += f" and {clause(more.removeprefix('{s} '), left.pop(), named)}"
        told.append(f"{capital(sentence)}.")
    return told


def one_sentence(rng: Random, fact: Fact, named: bool) -> str:
    return f"{capital(clause(rng.choice(fact.field.shapes), fact, named))}."


def clause(shape: str, fact: Fact, named: bool) -> str:
    subject = fact.subject
    if named:
        return filled(shape, subject.name, fact.value)
    return filled(shape, subject.they, fact.value, possessive=subject.their)
