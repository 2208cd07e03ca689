"""Known vulnerabilities of this project's dependencies, by pip-audit, where an index that lists them can be reached.

If it cannot, that is reported and nothing fails: what is installed is the same with and without a network.
"""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

_ASKED = "https://pypi.org/pypi/{name}/{version}/json"
_PATIENCE = 5.0  # seconds until an index must have answered
_WHOLE_PATIENCE = 300.0


def ask(constraints: Path) -> tuple[list[str], str]:
    """Vulnerabilities, one line each, and what could not be checked, as text; empty where all was checked."""
    if not _somebody_knows(constraints):
        return [], "no index that knows of holes can be reached from here"
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(constraints), "--no-deps", "--disable-pip"]
    try:
        ran = subprocess.run(
            [*command, "--format", "json", "--progress-spinner", "off"],
            capture_output=True,
            text=True,
            timeout=_WHOLE_PATIENCE,
            check=False,
        )
        return read(json.loads(ran.stdout))
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return [], "pip-audit got no answer"


def read(report: dict[str, Any]) -> tuple[list[str], str]:
    """Reads pip-audit's report. It counts packages that it has not found as harmless; this does not."""
    holes, skipped = [], []
    for each in report["dependencies"]:
        if "skip_reason" in each:
            skipped.append(each["name"])
        for hole in each.get("vulns", ()):
            mended = ", ".join(hole["fix_versions"]) or "no version yet"
            holes.append(f"{each['name']} {each['version']} has the known hole {hole['id']}, mended in {mended}")
    if skipped and len(skipped) == len(report["dependencies"]):
        return holes, "the index that was asked knows none of them"
    return holes, f"the index that was asked does not know {', '.join(skipped)}" if skipped else ""


def _somebody_knows(constraints: Path) -> bool:
    """Whether the index answers as pip-audit needs, tried with the first pin; a mirror may have no advisories."""
    name, _, version = constraints.read_text(encoding="utf-8").split()[0].partition("==")
    try:
        with urllib.request.urlopen(_ASKED.format(name=name, version=version), timeout=_PATIENCE) as answer:
            return "vulnerabilities" in json.load(answer)
    except (OSError, ValueError):
        return False
