"""Pools of n-grams: a text's is the same however its length came about, one without a text keeps to its size, and both
learn what they are worth."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from common.drafters.ngram_pool import NgramPool, PhrasePool, TextPool

LONGEST, VOCAB = 3, 3
TAILS = [tail for length in range(LONGEST + 1) for tail in product(range(VOCAB), repeat=length)]
TOKENS = st.lists(st.integers(0, VOCAB - 1), max_size=30)


def told(pool: NgramPool) -> list[list[tuple[int, float]]]:
    """All that a pool says of what may come next, in its order."""
    return [[(token, record.logp) for token, record in pool.after(tail).items()] for tail in TAILS]


def text_of(tokens: list[int]) -> TextPool:
    pool = TextPool(LONGEST, most=2)
    for token in tokens:
        pool.append(token)
    return pool


@given(TOKENS, st.lists(st.tuples(st.integers(0, 30), TOKENS), max_size=4))
def test_a_text_that_was_shortened_is_as_if_it_had_never_been_longer(tokens, edits):
    pool = text_of(tokens)
    for length, more in edits:
        pool.shorten(length)
        for token in more:
            pool.append(token)
        tokens = [*tokens[:length], *more]
    fresh = text_of(tokens)
    assert told(pool) == told(fresh)
    assert vars(pool) == vars(fresh), "nothing is left of what was taken back"


@given(TOKENS)
def test_a_text_tells_what_followed_the_longest_match_before_shorter_ones_the_newest_first(tokens):
    pool = text_of(tokens)
    for tail in TAILS:
        expected: list[int] = []
        for length in range(len(tail), 0, -1):
            gram = list(tail[-length:])
            ends = [at for at in range(length, len(tokens)) if tokens[at - length : at] == gram]
            newest = list(dict.fromkeys(tokens[at] for at in ends[:-9:-1]))[:2]
            expected += [token for token in newest if token not in expected]
        assert list(pool.after(tail)) == expected[:2]


@given(st.lists(st.tuples(st.tuples(*[st.integers(0, 9)] * LONGEST), st.integers(0, 9)), max_size=60))
def test_phrases_keep_to_their_size_and_forget_the_oldest_first(phrases):
    pool = PhrasePool(LONGEST, most=2, trust=0.5, grams=12)
    for before, token in phrases:
        pool.add(before, token)
        assert len(pool._next) <= 12
        assert next(iter(pool.after(before))) == token, "the newest"
    # Of four phrases at most twelve n-grams are.
    for before in {before for before, _ in phrases[-4:]}:
        newest = next(token for other, token in reversed(phrases) if other == before)
        assert newest in pool.after(before)
    pool.clear()
    assert told(pool) == told(PhrasePool(LONGEST, most=2, trust=0.5, grams=12))


def test_what_a_way_of_finding_is_worth_is_how_often_it_was_right():
    pool = text_of([1, 5, 1, 6])
    before = {token: record.logp for token, record in pool.after([1]).items()}
    for _ in range(20):
        pool.learn([1], 5)
    after = {token: record.logp for token, record in pool.after([1]).items()}
    assert list(before) == list(after) == [6, 5]
    assert after[5] > before[5] > after[6]
    assert after[5] < 0.0


def test_what_is_found_behind_a_longer_match_counts_as_that_though_shorter_ones_say_the_same():
    pool = text_of([1, 2, 5])
    (of_two,), (of_one,) = (pool.after(tail).values() for tail in ([1, 2], [7, 2]))
    assert of_two.logp > of_one.logp
    pool.learn([1, 2], 5)
    assert of_two.trials == of_one.trials + 1
