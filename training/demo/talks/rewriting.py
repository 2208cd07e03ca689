"""The category `rewriting`: the same content in another form; the prompt decides the wanted text, word for word.

What may live here: the families of the category. It may not know how answers are judged.
"""

from __future__ import annotations

from training.demo.talks import edits, retelling, trips
from training.demo.talks.records import FILTERED, FORMS, PLAIN, SHORTENED, SORTED, make_records
from training.demo.talks.retelling import FUTURE, PAST, PRESENT, THIRD
from training.demo.talks.talk import Category, Maker, mixture

ALL = tuple(FORMS)
TASKS: dict[str, tuple[Maker, float]] = {
    **{f"records to {form}": (make_records((form,), (PLAIN,)), 0.6) for form in FORMS},
    "records, sorted": (make_records(ALL, (SORTED,)), 2),
    "records, filtered": (make_records(ALL, (FILTERED,)), 2),
    "records, shortened": (make_records(ALL, (SHORTENED,)), 1.5),
    "records, filtered and sorted": (make_records(ALL, (FILTERED, SORTED)), 1),
    "records, filtered and shortened": (make_records(ALL, (FILTERED, SHORTENED)), 1),
    "person or tense": (retelling.make_change(retelling.ONE_CHANGE), 4),
    "person and tense": (retelling.make_change(retelling.TRAINED_CHANGES), 3),
    "steps": (retelling.make_list((THIRD, PRESENT), (THIRD, FUTURE)), 1),
    "another name": (retelling.other_name, 1),
    "sentences": (retelling.one_sentence, 1),
    "trip": (trips.trip, 2),
}
HELD_OUT: dict[str, tuple[Maker, float]] = {
    "held-out: records, sorted and shortened": (make_records(ALL, (SORTED, SHORTENED)), 1),
    "held-out: person and tense": (retelling.make_change(retelling.HELD_OUT_CHANGES), 1),
    "held-out: steps, past": (retelling.make_list((THIRD, PAST)), 1),
    "held-out: reversed lines": (edits.reversed_lines, 1),
}
EXERCISES: dict[str, tuple[Maker, float]] = {name: (edit, 1) for name, edit in edits.EDITS.items()}
CATEGORY = Category(mixture(TASKS), mixture(EXERCISES), mixture(HELD_OUT), task_share=0.7)
