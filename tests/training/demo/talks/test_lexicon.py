"""Names and words: many, distinct, and with pronouns that one can tell."""

from __future__ import annotations

from random import Random

from training.demo.talks.lexicon import PEOPLE, cities, invented_person, names, people, words


def test_names_do_not_run_out() -> None:
    rng = Random(1)
    assert len({invented_person(rng).name for _ in range(5000)}) > 3000
    assert len({name.name for name in PEOPLE}) == len(PEOPLE) > 190


def test_an_invented_name_tells_its_pronoun() -> None:
    rng = Random(2)
    for _ in range(500):
        who = invented_person(rng)
        assert (who.they == "she") == who.name.endswith("a")


def test_draws_are_distinct_and_no_name_begins_another() -> None:
    rng = Random(3)
    for _ in range(300):
        for drawn in (names(rng, 5), cities(rng, 5), words(rng, 8)):
            assert len(set(drawn)) == len(drawn)
        found = [who.name for who in people(rng, 4)]
        assert not any(one != other and one.startswith(other) for one in found for other in found)


def test_equal_seeds_give_equal_draws() -> None:
    assert names(Random(4), 6) == names(Random(4), 6)
