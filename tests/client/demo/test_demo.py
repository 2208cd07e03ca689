"""`outrider demo` without models: what it prints, and with which code it ends."""

import asyncio
import io
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from client.commands import demo as command
from client.demo.comparison import compare
from client.demo.systems_under_test import SYSTEMS
from client.demo.virtual import VirtualRun
from client.errors import DemoError
from common.stated_costs import STATED
from tests.client.demo.answers import answer, counted

LATE = 30  # of 100 passes


@dataclass
class FakeSystem:
    """In real time on a machine that is too busy for the stated costs."""

    tokens: tuple[int, ...]
    client = SimpleNamespace(
        tokenizer=SimpleNamespace(decode=lambda tokens, **_: ""), description=SimpleNamespace(end_tokens=(0,))
    )
    server = SimpleNamespace(summary=lambda: counted(overrun=LATE))

    async def ask(self, prompt, watch):
        return answer(self.tokens, seconds=1000.0)


@pytest.fixture
def run_demo(monkeypatch, tmp_path):
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": "hello"}))
    for model in ("target", "independent"):
        (tmp_path / model).mkdir()

    def run(tokens_of_outrider, *, as_json, virtual_tokens=(1, 2)):
        @asynccontextmanager
        async def systems_under_test(family, profile, costs, systems, download, advance):
            advance("server of cloud", 0.0)
            yield {name: FakeSystem(tokens_of_outrider if name == "outrider" else (1, 2)) for name in systems}

        async def compare_virtually(*_):
            seconds = {"cloud": 2.0, "lockstep": 1.0, "server-side": 0.8, "overlapped": 0.6, "outrider": 0.5}
            answers = {name: [answer(virtual_tokens, seconds=seconds[name])] for name in SYSTEMS}
            return VirtualRun(answers, {name: counted() for name in SYSTEMS}, {"pass_ms": 30.0})

        monkeypatch.setattr(command, "systems_under_test", systems_under_test)
        monkeypatch.setattr(command, "compare_virtually", compare_virtually)
        asyncio.run(command.demo(command.DemoOptions(1, 8, "4g", 0, 4.0, tmp_path), as_json=as_json))

    return run


def test_json_keeps_its_contract(run_demo, capsys):
    run_demo((1, 2), as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert result["identical"] is True
    assert {"cloud", "outrider"} <= set(result["systems"])
    assert {"tokens_per_second", "ttft_seconds", "speed_up", "ttft_ratio"} <= set(result["systems"]["outrider"])


def test_figures_count_on_a_machine_that_is_too_busy_for_the_stated_costs(run_demo, capsys):
    run_demo((1, 2), as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert (result["clock"], result["stated_costs"]) == ("virtual", {"pass_ms": 30.0})
    assert result["systems"]["outrider"]["speed_up"] == pytest.approx(4.0)
    assert all(system["overrun_passes"] == 0.0 for system in result["systems"].values())
    here = result["real_time"]
    assert here["systems"]["outrider"]["overrun_passes"] == pytest.approx(LATE / 100)
    assert here["kept_stated_costs"] is False
    run_demo((1, 2), as_json=False)
    out = capsys.readouterr().out
    assert "do not count" not in out
    assert "4.00x" in out


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(("here", "virtually"), [((1, 3), (1, 2)), ((1, 2), (1, 3))])
def test_answers_that_differ_are_a_failure_after_the_result(run_demo, capsys, as_json, here, virtually):
    with pytest.raises(DemoError, match="answers differ"):
        run_demo(here, as_json=as_json, virtual_tokens=virtually)
    out = capsys.readouterr().out
    assert json.loads(out)["identical"] is False if as_json else "ANSWERS DIFFER" in out


def test_the_table_is_whole_in_80_columns():
    slow = replace(answer().stats, tokens_per_second=123.4, ttft_seconds=12.345, passes=1234)
    comparison = compare(
        {name: [replace(answer(), stats=slow)] for name in SYSTEMS}, {name: counted(overrun=100) for name in SYSTEMS}
    )
    console = Console(width=80, file=io.StringIO())
    shown = command.Shown(comparison, comparison, identical=True, costs=STATED.times(4), virtual_costs={})
    console.print(command.result_table(shown, "3 of the demo's prompts over satellite"))
    text = console.file.getvalue()
    assert "…" not in text
    lines = text.splitlines()
    (index,) = [index for index, line in enumerate(lines) if line.strip().startswith("system")]
    assert lines[index - 1].strip() == "real time here:"
    assert " ".join(lines[index].split()) == "system tokens/s speed first token kB up kB down tokens/s late"
    assert all(word in text for word in ("12345 ms", "1.00x", "100%", "120 ms", "0.4 ms", "20 ms", "6.7 ms"))
