"""What is right of what apps do, by link; how an app is found or missed; and what the targets for apps are told."""

import asyncio
from pathlib import Path

import pytest

from client.endpoint.answer_parsers.answer_format import AnswerFormat
from client.endpoint.answer_parsers.calls import CallParser
from client.endpoint.answer_parsers.hermes import Hermes
from client.endpoint.answer_parsers.pieces import ToolCall
from client.text import chat_tokens
from common.models.checkpoint import load_tokenizer
from common.models.fingerprint import fingerprint
from common.models.shipped import shipped_family
from netem.experiments.apps import programs_run
from netem.experiments.apps.measure import CUT, OFFLINE, ONLINE, is_right, make_report
from netem.experiments.apps.programs_run import Outcome, run_app
from netem.experiments.apps.stand_in import answers, with_tools

GOT = {"got": "text"}
REFUSED = {"error": "InternalServerError: no server", "status": 503}
SAYS_503 = {"error": "RuntimeError: Error code: 503 - no server"}
BROKE = {"error": "TypeError: none"}
ENDED = {"error": "TimeoutError: no answer in 600 s"}
WELL = Outcome("app", "TEXT", "it", 1.0, "text")


@pytest.mark.parametrize(
    ("link", "kind", "found", "right"),
    [
        (ONLINE, "TEXT", GOT, True),
        (ONLINE, "DATA", REFUSED, False),
        (CUT, "EDITS", BROKE, False),
        (OFFLINE, "TEXT", GOT, True),
        (OFFLINE, "TEXT", REFUSED, False),
        (OFFLINE, "DATA", REFUSED, True),
        (OFFLINE, "DATA", SAYS_503, True),
        (OFFLINE, "DATA", GOT, False),
        (OFFLINE, "DATA", BROKE, False),
        (OFFLINE, "EDITS", BROKE, True),
        (OFFLINE, "EDITS", ENDED, False),
        (OFFLINE, "EDITS", GOT, False),
    ],
)
def test_without_a_link_text_is_answered_and_data_refused(link, kind, found, right):
    outcome = Outcome("app", kind, "it", 1.0, **found)
    assert is_right(link, outcome) is right
    report = make_report({ONLINE: {"app": [WELL]}, link: {"app": [outcome]}})
    assert bool(report.faults) is not right


def test_what_is_not_installed_is_said_and_is_no_fault():
    report = make_report({link: {"app": None, "other": [WELL]} for link in (ONLINE, OFFLINE)})
    assert report.rows[0] == ["app", "not installed", "", ""]
    assert not report.faults


def test_a_run_without_an_app_or_of_one_that_does_nothing_is_not_valid():
    nothing = make_report({link: {"app": None} for link in (ONLINE, OFFLINE)})
    assert nothing.faults == ["no app is installed: name their environments with --apps"]
    silent = make_report({ONLINE: {"app": [WELL]}, OFFLINE: {"app": []}})
    assert silent.faults == ["app, offline: it did nothing"]


def test_a_program_tells_what_it_got_and_what_it_raised(tmp_path, monkeypatch):
    (tmp_path / "runner.py").write_text((programs_run.PROGRAMS / "runner.py").read_text())
    (tmp_path / "here.py").write_text(
        'NEEDS = "json"\n\ndef fails(url):\n    raise ValueError(url)\n\n'
        'TEXT = {"echo": lambda url: url}\nDATA = {"fail": fails}\n'
    )
    (tmp_path / "gone.py").write_text('NEEDS = "no_such_package_or_command"\nimport no_such_package_or_command\n')
    monkeypatch.setattr(programs_run, "PROGRAMS", tmp_path)
    done = asyncio.run(run_app("here", "http://x", [Path("/nowhere")]))
    assert [(each.kind, each.name, each.got, each.error) for each in done] == [
        ("TEXT", "echo", "http://x", ""),
        ("DATA", "fail", "", "ValueError: http://x"),
    ]
    assert asyncio.run(run_app("gone", "http://x", [])) is None


def test_a_program_asks_past_a_proxy_of_the_environment(tmp_path, monkeypatch, unreachable_proxy):
    (tmp_path / "runner.py").write_text((programs_run.PROGRAMS / "runner.py").read_text())
    (tmp_path / "here.py").write_text(
        'NEEDS = "json"\nimport urllib.request\n'
        'TEXT = {"bypass": lambda url: all(map(urllib.request.proxy_bypass, ("127.0.0.1", "localhost")))}\n'
    )
    monkeypatch.setattr(programs_run, "PROGRAMS", tmp_path)
    assert [each.got for each in asyncio.run(run_app("here", "http://x", []))] == ["True"]


def test_the_target_for_apps_shows_tools_and_keeps_its_drafts(tmp_path):
    target = shipped_family("demo").target
    made = with_tools(target, tmp_path)
    tokenizer = load_tokenizer(made)
    AnswerFormat(tokenizer, {tokenizer.eos_token_id}).require_tools()
    assert fingerprint(made) == fingerprint(target)
    plain = [{"role": "user", "content": "Hi"}]
    assert chat_tokens(tokenizer, plain) == chat_tokens(load_tokenizer(target), plain)


def test_what_the_stand_in_learns_are_calls():
    learnt = answers("a.py")
    for step, name in (("call 0", "read"), ("call 1", "write")):
        parser = CallParser(Hermes(), {"read", "write"}, lambda: "id")
        (call,) = [*parser.feed(learnt[step]), *parser.end(is_cut=False)]
        assert isinstance(call, ToolCall)
        assert call.name == name
