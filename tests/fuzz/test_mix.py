"""A short hostile mix: honest clients get their answers, and the server holds no more memory than it states.

Their speed is measured by `make mix`, on a machine that does nothing else.
"""

from tests.fuzz.mix import mix


def test_honest_clients_are_served_beside_everything_that_others_do() -> None:
    mixed = mix("demo", seconds=8.0, quiet_seconds=3.0, clients=4, seed="a short run", pace="10ms")
    assert mixed.counts["calls that are never ended"]
    assert mixed.counts["answers that are held up"]
    assert mixed.peak_bytes < mixed.ceiling_bytes
    assert mixed.hostile.answers
