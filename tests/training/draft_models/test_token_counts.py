"""The vocabulary of a draft that is trimmed while it trains."""

from training.draft_models.token_counts import TokenCounts


def test_end_tokens_are_kept_though_the_text_has_none() -> None:
    kept = TokenCounts(10, 3, frozenset({9})).kept()
    assert kept is not None
    assert kept.tolist() == [0, 1, 9]
