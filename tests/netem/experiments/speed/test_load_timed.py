"""`load-timed`: its table and faults from made-up answers, and a number of clients asked at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from client.answer import Answer
from netem.experiments.experiment import Report
from netem.experiments.speed.load_timed import TimedLoad, make_report, play
from netem.plots.load import load_timed
from netem.plots.picture import svg_of
from tests.client.demo.answers import answer

CLOUD, OURS = "cloud decoding", "eager"


TOKENS = tuple(range(8))


def loads(given: Answer, seconds: float) -> list[TimedLoad]:
    return [TimedLoad(clients, [given] * clients, seconds) for clients in (1, 4)]


def report_of(ours: Answer) -> Report:
    slow = answer(TOKENS, seconds=2.0, ttft=0.1)
    return make_report({CLOUD: loads(slow, 2.0), OURS: loads(ours, 1.0)}, 8, "NVIDIA X, bfloat16", "proxy")


def test_speeds_are_those_of_a_client_and_of_all() -> None:
    report = report_of(answer(TOKENS, seconds=0.5, ttft=0.1))
    assert [list(row[:6]) for row in report.rows] == [
        ["1", CLOUD, "4.0", "1.00", "4", "1.00"],
        ["1", OURS, "16.0", "4.00", "8", "2.00"],
        ["4", CLOUD, "4.0", "1.00", "16", "1.00"],
        ["4", OURS, "16.0", "4.00", "32", "2.00"],
    ]
    assert [row[6] for row in report.rows] == ["2.00 s", "0.50 s"] * 2, "a p95 of one answer, or of four, is none"
    assert report.faults == []
    assert report.results["identical"]
    headline, _ = svg_of(load_timed, report.results)
    assert headline.message == "4 clients get 32 tokens/s together (eager)"


def test_other_tokens_and_answers_that_broke_off_are_faults() -> None:
    other = replace(answer(TOKENS[::-1], seconds=0.5, ttft=0.1), failure="the link is gone")
    report = report_of(other)
    assert any("identical across systems: no, with 1, 4 clients" in remark for remark in report.remarks)
    assert report.faults[0] == "with eager and 1 client: an answer broke off: the link is gone"
    assert len(report.faults[:-2]) == 1 + 4
    assert report.faults[-2:] == [
        "with 1 client the answers differ between systems",
        "with 4 clients the answers differ between systems",
    ]
    assert not report.results["identical"]


async def test_so_many_clients_are_asked_and_timed() -> None:
    async def ask(prompts: Sequence[Sequence[int]], tokens: int, clients: int) -> list[Answer]:
        await asyncio.sleep(0.05)
        return [answer(TOKENS[:tokens], seconds=0.5, ttft=0.1) for _ in prompts for _ in range(clients)]

    load = await play(ask, [[1], [2]], 3, 4)
    assert (load.clients, len(load.answers), len(load.answers[0].tokens)) == (4, 8, 3)
    assert load.seconds >= 0.05
