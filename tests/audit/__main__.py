"""`make audit`, and a part of `make lint`: exits with 1 if a dependency is not pinned, licensed and safe."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from tests.audit.advisories import ask
from tests.audit.dependencies import needed, pins_of, unhashed, unlicensed, unpinned

_PROJECT = Path(__file__).parents[2]


def main() -> None:
    constraints = _PROJECT / "constraints.txt"
    try:
        dependencies = needed(_PROJECT)
    except PackageNotFoundError as missing:
        sys.exit(f"audit: {missing.name} is not installed; run `make install`")
    pins = pins_of(constraints.read_text(encoding="utf-8").splitlines())
    hashes = [line for file in (_PROJECT / "hashes").glob("*.txt") for line in file.read_text("utf-8").splitlines()]
    faults = [*_unmet(), *unpinned(dependencies, pins), *unhashed(pins, hashes), *unlicensed(dependencies)]
    holes, not_looked_at = ask(constraints)
    faults += holes
    for fault in faults:
        sys.stderr.write(f"audit: {fault}\n")
    known = f"not asked for known holes: {not_looked_at}" if not_looked_at else "no known holes"
    if not faults:
        sys.stdout.write(f"audit: {len(dependencies)} dependencies, all pinned, under known licences; {known}\n")
    sys.exit(bool(faults))


def _unmet() -> list[str]:
    """Requirements that pip finds missing or at a conflicting version."""
    ran = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    return ran.stdout.splitlines() if ran.returncode else []


if __name__ == "__main__":
    main()
