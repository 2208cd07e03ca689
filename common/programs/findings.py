"""Findings of the `doctor` commands, each with a remedy, and how they are printed for people and for scripts.

It may not know what is checked.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import typer

from common.programs.console import PlainConsole
from common.protocol.plain import LONGEST_LINE, plain


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"  # works now, but may stop working
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `fix` says what to do; empty if nothing is wrong."""

    subject: str
    detail: str
    fix: str = ""
    is_minor: bool = False

    @property
    def verdict(self) -> Verdict:
        if not self.fix:
            return Verdict.OK
        return Verdict.WARN if self.is_minor else Verdict.FAIL


_STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "red"}


def is_well(findings: Sequence[Finding]) -> bool:
    """Whether nothing fails."""
    return all(finding.verdict is not Verdict.FAIL for finding in findings)


def show(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Prints a line for each finding, or one JSON object."""
    if as_json:
        listed = [
            {"subject": each.subject, "verdict": each.verdict, "detail": each.detail, "fix": each.fix}
            for each in findings
        ]
        typer.echo(json.dumps({"ok": is_well(findings), "findings": listed}))
        return
    console = PlainConsole(highlight=False, soft_wrap=True)
    for finding in findings:
        console.print(f"{finding.verdict:<4}", style=_STYLES[finding.verdict], end="  ")
        sentence = "; ".join(filter(None, (finding.detail, finding.fix))).rstrip(".")
        console.print(plain(f"{finding.subject}: {sentence}", LONGEST_LINE), markup=False)
