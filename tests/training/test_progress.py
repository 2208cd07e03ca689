"""Progress on a stream that is no terminal: plain lines, not too often, with everything a person wants to know."""

from __future__ import annotations

import io

from rich.console import Console

from training.progress import LINE_SECONDS, TrainingBar


def test_plain_lines_come_now_and_then() -> None:
    now = 0.0
    stream = io.StringIO()
    with TrainingBar(Console(file=stream, width=40), clock=lambda: now) as bar:
        bar.stage("a draft")
        for step in range(1, 101):
            now += LINE_SECONDS / 20
            bar.advance(step, 100, 1.5, 1234.0, accept_length=2.25 if step > 20 else None)
    lines = stream.getvalue().splitlines()
    assert lines[:3] == [
        "a draft",
        "a draft: 1%, loss 1.500, 1,234 tok/s",
        "a draft: 21%, loss 1.500, accept length 2.25, 1,234 tok/s, 2 min left",
    ]
    assert lines[-1] == "a draft: 100%, loss 1.500, accept length 2.25, 1,234 tok/s"
    assert len(lines) == 7


def test_a_terminal_shows_a_bar_and_no_lines() -> None:
    stream = io.StringIO()
    with TrainingBar(Console(file=stream, width=120, force_terminal=True)) as bar:
        bar.stage("a draft")
        bar.advance(5, 10, 1.5, 1234.0, accept_length=2.25)
    assert "accept length 2.25" in stream.getvalue()
    assert "5%, " not in stream.getvalue()
