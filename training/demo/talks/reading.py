"""The category `reading`: a text and a question on it, answered with the evidence first and the result last.

What may live here: the families of the category and how text and question stand together. It may not know how answers
are judged.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training.demo.talks import lookup, order, questions
from training.demo.talks.passages import Passage, draw_passage
from training.demo.talks.questions import Asker, PassageQuestion
from training.demo.talks.scenes import SCENES
from training.demo.talks.talk import Category, Maker, Talk, mixture

LEADS = (
    "Read the text and answer the question.\n\n{text}\n\nQuestion: {ask}",
    "{text}\n\n{ask}",
    "{text}\n\n{ask}",
    "Here is a short text. {text}\n\nUsing only the text: {ask}",
    "Text: {text}\nQuestion: {ask}",
    "{ask}\n\n{text}",
    "I have a question on this text. {ask}\n\n{text}",
)
SHORT_LEADS = ("{text}\n\n{ask}", "{text}\n{ask}", "{ask}\n\n{text}", "Question: {ask}\n\n{text}")


def as_talk(rng: Random, leads: tuple[str, ...], text: str, question: PassageQuestion, *more: PassageQuestion) -> Talk:
    """The first question comes with the text; further ones follow alone, as turns of the same talk."""
    prompt = rng.choice(leads).format(text=text, ask=question.ask)
    turns = {prompt: " ".join(question.answer)} | {later.ask: " ".join(later.answer) for later in more}
    return Talk("", tuple(turns.items()), question.result, question.wrong)


def story(told: Callable[[Random], tuple[str, PassageQuestion]], leads: tuple[str, ...] = LEADS) -> Maker:
    return lambda rng: as_talk(rng, leads, *told(rng))


def exercise(told: Callable[[Random], tuple[str, PassageQuestion]]) -> Maker:
    return story(told, SHORT_LEADS)


ALL = tuple(SCENES)
# What is held out are combinations: the question is trained on in other scenes, and the scene with other questions.
FACTS: dict[str, tuple[Asker, tuple[str, ...], float]] = {
    "look-up": (questions.direct, ALL, 4),
    "missing fact": (questions.missing, ALL, 2),
    "who has it": (questions.reverse, ("people", "events", "shops", "trains"), 3),
    "nobody has it": (questions.reverse_missing, ("people", "events", "shops", "trains"), 0.7),
    "two hops": (questions.hop, ("people", "events", "shops", "boxes"), 4),
    "yes or no": (questions.yes_or_no, ALL, 2),
    "the same": (questions.same, ("people", "events", "boxes", "trains"), 1.5),
    "how many share": (questions.count, ALL, 1),
    "compare": (questions.compared, ("people", "events", "shops", "trains"), 2),
    "is it more": (questions.is_more, ALL, 1),
    "most or least": (questions.extreme, ("people", "events", "boxes", "trains"), 2),
    "gap": (questions.gap, ("people", "shops", "boxes", "trains"), 1.5),
    "above a bound": (questions.above, ALL, 1.5),
}


def facts(asker: Asker, *scenes: str) -> Maker:
    """Passages of the scenes, drawn until one has what the question needs; one to four more questions of trained kinds
    follow where they can be asked."""

    def make(rng: Random) -> Talk:
        while True:
            scene = rng.choice(scenes)
            passage = draw_passage(rng, SCENES[scene](rng))
            question = asker(rng, passage)
            if question is not None:
                return as_talk(rng, LEADS, passage.text, question, *follow_ups(rng, passage, scene))

    return make


def follow_ups(rng: Random, passage: Passage, scene: str) -> list[PassageQuestion]:
    kinds = [(asker, weight) for asker, scenes, weight in FACTS.values() if scene in scenes]
    askers = rng.choices([asker for asker, _ in kinds], [weight for _, weight in kinds], k=rng.randint(1, 4))
    asked = [asker(rng, passage) for asker in askers]
    return [question for question in asked if question is not None]


TASKS: dict[str, tuple[Maker, float]] = {
    **{name: (facts(asker, *scenes), weight) for name, (asker, scenes, weight) in FACTS.items()},
    "way": (story(order.way), 1.5),
    "race": (story(order.race), 1.5),
    "moves": (story(order.moves), 1.5),
    "deeds": (story(order.all_of_one_day), 1),
}
HELD_OUT: dict[str, tuple[Maker, float]] = {
    "held-out: two hops, trains": (facts(questions.hop, "trains"), 1),
    "held-out: who has it, boxes": (facts(questions.reverse, "boxes"), 1),
    "held-out: gap, events": (facts(questions.gap, "events"), 1),
    "held-out: most or least, shops": (facts(questions.extreme, "shops"), 1),
    "held-out: between": (exercise(lookup.between), 1),
}
EXERCISES: dict[str, tuple[Maker, float]] = {
    "neighbour": (exercise(lookup.neighbour), 2),
    "nth": (exercise(lookup.nth), 2),
    "length": (exercise(lookup.length), 1),
    "member": (exercise(lookup.member), 1),
    "pairs": (exercise(lookup.pairs), 4),
    "several pairs": (exercise(lookup.several_pairs), 5),
    "several neighbours": (exercise(lookup.several_neighbours), 2),
    "description": (facts(questions.described, *ALL), 8),
    "line": (exercise(lookup.line_with), 1.5),
    "chain": (exercise(lookup.chain), 1.5),
}
CATEGORY = Category(mixture(TASKS), mixture(EXERCISES), mixture(HELD_OUT), task_share=0.62)
