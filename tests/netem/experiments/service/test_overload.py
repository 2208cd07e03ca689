"""What makes a run under twice the load invalid."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from netem.experiments.service import overload
from netem.experiments.service.overload import LoadObservations, make_report
from netem.virtual.clock import run_virtually
from tests.client.demo.answers import answer

ALONE = LoadObservations(10.0, 20, 400, gaps=[0.03] * 50)
CROWDED = LoadObservations(10.0, 20, 400, gaps=[0.04] * 50, refused=[0.01] * 30, hints=[1.5] * 30)


def faults(**more) -> list[str]:
    return list(make_report({4: ALONE, 8: replace(CROWDED, **more)}).faults)


def test_a_run_in_which_nobody_noticed_is_valid():
    report = make_report({4: ALONE, 8: CROWDED})
    assert not report.faults
    assert [row[:2] for row in report.rows] == [["4", "20"], ["8", "20"]]
    assert report.rows[1][-2:] == ["30", "10"]
    assert "is 1.33 times as long" in report.remarks[1]


def test_slow_tokens_slow_refusals_and_no_refusals_are_faults():
    assert faults(gaps=[0.05] * 50) == ["tokens come 1.67 times as slowly"]
    assert faults(refused=[*[0.01] * 20, *[0.2] * 10]) == ["a refusal took 200 ms"]
    assert faults(refused=[], hints=[]) == ["nobody was refused"]
    assert faults(hints=[1.5, 0.0]) == ["a refusal said no time to come back"]


@dataclass
class OneTokenAfterAnother:
    """A conversation with ten tokens, one every 20 ms."""

    failure: str

    async def answer(self, prompt, settings, watch):
        for token in range(10):
            await asyncio.sleep(0.02)
            watch([token], ())
            watch([], (token,))
        return replace(answer(tuple(range(10))), failure=self.failure)


@dataclass
class Server:
    failure: str = ""

    @asynccontextmanager
    async def converse(self, policy, drafter):
        yield OneTokenAfterAnother(self.failure)


def test_tokens_that_come_after_the_time_are_not_divided_by_it():
    observed = LoadObservations(0.25)
    run_virtually(overload._run_client(observed.seconds, Server(), [[1]], observed))
    assert observed.answers == 2
    assert observed.tokens == 12
    assert len(observed.gaps) == 18, "their gaps count"


def test_answers_that_break_off_are_not_answers_and_a_fault():
    observed = LoadObservations(0.25)
    run_virtually(overload._run_client(observed.seconds, Server("the server is gone"), [[1]], observed))
    assert (observed.answers, observed.gaps) == (0, [])
    assert observed.failures == ["an answer broke off: the server is gone"] * 2
    assert make_report({4: ALONE, 8: replace(CROWDED, answers=0, gaps=[], failures=observed.failures)}).faults == [
        *["with 8 clients, an answer broke off: the server is gone"] * 2,
        "with 8 clients no answer was whole",
    ]
