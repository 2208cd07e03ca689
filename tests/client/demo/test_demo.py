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
from client.errors import DemoError
from tests.client.demo.answers import answer, counted


@dataclass
class FakeLane:
    tokens: tuple[int, ...]
    client = SimpleNamespace(tokenizer=SimpleNamespace(decode=lambda tokens, **_: ""))
    server = SimpleNamespace(summary=counted)

    async def ask(self, prompt, watch):
        return answer(self.tokens)


@pytest.fixture
def run_demo(monkeypatch, tmp_path):
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": "hello"}))
    for model in ("target", "independent"):
        (tmp_path / model).mkdir()

    def run(tokens_of_outrider, *, as_json):
        @asynccontextmanager
        async def lanes(family, profile, systems, download):
            yield {name: FakeLane(tokens_of_outrider if name == "outrider" else (1, 2)) for name in systems}

        monkeypatch.setattr(command, "lanes", lanes)
        asyncio.run(command.demo(command.DemoOptions(1, 8, "4g", 0, tmp_path), as_json=as_json))

    return run


def test_json_keeps_its_contract(run_demo, capsys):
    run_demo((1, 2), as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert result["identical"] is True
    assert {"cloud", "outrider"} <= set(result["systems"])
    assert {"tokens_per_second", "ttft_seconds", "speed_up", "ttft_ratio"} <= set(result["systems"]["outrider"])


@pytest.mark.parametrize("as_json", [True, False])
def test_answers_that_differ_are_a_failure_after_the_result(run_demo, capsys, as_json):
    with pytest.raises(DemoError, match="answers differ"):
        run_demo((1, 3), as_json=as_json)
    out = capsys.readouterr().out
    assert json.loads(out)["identical"] is False if as_json else "ANSWERS DIFFER" in out


def test_the_table_is_whole_in_80_columns():
    slow = replace(answer().stats, tokens_per_second=123.4, ttft_seconds=12.345, passes=1234)
    answers = {name: [replace(answer(), stats=slow)] for name in command.SYSTEMS}
    counters = {name: counted(overrun=100) for name in command.SYSTEMS}
    console = Console(width=80, file=io.StringIO())
    console.print(command.result_table(compare(answers, counters), "3 of the demo's prompts over satellite"))
    shown = console.file.getvalue()
    assert "…" not in shown
    assert all(word in shown for word in ("tokens/s", "speed", "levels", "12345 ms", "1.00x", "100.0%"))
