import pytest

from netem.experiments.one_device.scores import bootstrap_for, differing, make_score
from tests.netem.experiments.one_device.fake_answers import measured

ANSWERS = {"code": [measured(4), measured(4)], "chat": [measured(2), measured(2)]}


def test_a_score_counts_categories_the_same():
    score = make_score(ANSWERS, depth=0, target_layers=12, bootstrap=bootstrap_for(ANSWERS, seed=0))
    assert score.accept.value == 3
    assert {name: estimate.value for name, estimate in score.accept_by_category.items()} == {"code": 4, "chat": 2}
    # A round of six levels and a pass takes 60 ms, plain decoding 30 ms for each token.
    assert {name: estimate.value for name, estimate in score.speed_up_by_category.items()} == pytest.approx(
        {"code": 2, "chat": 1}
    )
    assert score.speed_up.value == pytest.approx(1.5)
    assert score.tokens_per_second == pytest.approx(18)
    assert score.as_dict()["categories"]["code"]["accept_length"]["value"] == 4


def test_layers_run_by_the_draft_slow_it_down():
    bootstrap = bootstrap_for(ANSWERS, seed=0)
    shallow, deep = (make_score(ANSWERS, depth, 12, bootstrap) for depth in (0, 3))
    assert deep.speed_up.value < shallow.speed_up.value
    assert deep.accept == shallow.accept


def test_differing_answers_are_counted():
    other = {"code": [measured(4), measured(4, tokens=(1, 2, 3, 4, 5, 6, 7, 8, 0))], "chat": ANSWERS["chat"]}
    assert differing(other, ANSWERS) == 1
    assert differing(ANSWERS, ANSWERS) == 0
