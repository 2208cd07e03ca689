"""Findings, as people and as scripts read them."""

import json

from common.programs.findings import Finding, is_well, show

WELL = Finding("python", "3.11")
WARNING = Finding("tls", "ends soon", "renew it", is_minor=True)
FAULT = Finding("cache", "[/]full", "make room.")


def test_people_read_a_line_each(capsys):
    show([WELL, WARNING, FAULT], as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "ok    python: 3.11",
        "warn  tls: ends soon; renew it",
        "fail  cache: [/]full; make room",
    ]


def test_scripts_read_one_object(capsys):
    show([WELL, FAULT], as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert told["findings"][0] == {"subject": "python", "verdict": "ok", "detail": "3.11", "fix": ""}
    assert [each["verdict"] for each in told["findings"]] == ["ok", "fail"]


def test_a_warning_is_no_failure():
    assert is_well([WELL, WARNING])
    assert not is_well([WARNING, FAULT])
