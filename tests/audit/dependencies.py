"""The distributions that ours needs, directly and indirectly, as installed; whether all are pinned exactly, and their
licences. Uses no network."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

_OF_TORCH = re.compile(r"nvidia-.*|cuda-.*|triton|pytorch-triton.*")
"""What torch brings for a GPU, and pins itself."""

TORCH = "torch"
_HASHES = "hashes"

_OF_PYTHON = ("pip", "setuptools", "wheel")
"""What an environment has before anything is installed."""

_LICENCES = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC"),
        *("LLVM-exception", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib"),
        # Spellings from before SPDX identifiers.
        *("Apache", "Apache 2.0", "Apache License", "Apache Software License", "BSD", "BSD License"),
        *("3-Clause BSD License", "Apache 2.0 License", "Apache License, Version 2.0", "ISC License (ISCL)"),
        *("GNU Lesser General Public License v3 (LGPLv3)", "MIT License", "Mozilla Public License 2.0 (MPL 2.0)"),
        *("Public Domain", "Python Software Foundation License"),
    )
)


@dataclass(frozen=True, slots=True)
class Dependency:
    name: str  # as package indexes spell it
    version: str  # without the local version suffix
    licence: str


def needed(project: Path, extra: str = "dev") -> list[Dependency]:
    """All that the project in `pyproject.toml` needs with one of its extras (none if `extra` is empty), in alphabetical
    order.

    Raises PackageNotFoundError if something is not installed.
    """
    about = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pending = [*map(Requirement, about["dependencies"]), *(required_by(about, extra) if extra else ())]
    found: dict[str, Dependency] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while pending:
        requirement = pending.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen or name in _OF_PYTHON or _OF_TORCH.fullmatch(name):
            continue
        seen.add((name, extras))
        installed = distribution(name)
        found[name] = Dependency(name, Version(installed.version).public, licence_of(installed))
        pending += _wanted_by(installed, extras)
    return [found[name] for name in sorted(found)]


def required_by(about: Mapping[str, Any], extra: str) -> list[Requirement]:
    """What an extra of the project adds, including the extras that it refers to."""
    required = []
    for requirement in map(Requirement, about["optional-dependencies"][extra]):
        if requirement.name == about["name"]:
            required += [each for included in requirement.extras for each in required_by(about, included)]
        else:
            required.append(requirement)
    return required


def pins_of(lines: Iterable[str]) -> dict[str, str]:
    """The exact versions that a constraints file pins."""
    pins = (Requirement(line) for line in lines if line.strip() and not line.startswith("#"))
    exact = ((pin.name, list(pin.specifier)) for pin in pins)
    return {canonicalize_name(name): by[0].version for name, by in exact if len(by) == 1 and by[0].operator == "=="}


def unpinned(dependencies: Iterable[Dependency], pins: Mapping[str, str]) -> list[str]:
    """What is wrong with the pins, one line each."""
    faults = []
    for each in dependencies:
        pin = pins.get(each.name)
        if pin is None:
            faults.append(f"{each.name} is not pinned; add {each.name}=={each.version} to constraints.txt")
        elif Version(pin) != Version(each.version):
            faults.append(f"{each.name} is {each.version} here and {pin} in constraints.txt; install or pin it anew")
    return faults


def hashed_pins(requirements: Iterable[str]) -> dict[str, str]:
    """The exact versions that are pinned with hashes."""
    text = "\n".join(requirements).replace("\\\n", " ")
    return pins_of(line.partition("--hash")[0] for line in text.splitlines() if "--hash=sha256:" in line)


def unhashed(pins: Mapping[str, str], requirements: Iterable[str]) -> list[str]:
    """What is pinned but has no hash, one line each."""
    hashed = hashed_pins(requirements)
    return [
        f"{name}=={version} has no hash in {_HASHES}; make that anew, as it says"
        for name, version in pins.items()
        if name != TORCH and hashed.get(name) != version
    ]


def unlicensed(dependencies: Iterable[Dependency]) -> list[str]:
    """Licences that have not been reviewed, one line each."""
    return [
        f"{each.name} comes under '{each.licence}', which is no licence that is known here; read it first"
        for each in dependencies
        if not all(part in _LICENCES for part in _parts(each.licence))
    ]


def licence_of(installed: Distribution) -> str:
    """The licence expression, or the older free-text field instead."""
    about = installed.metadata
    classified = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if line[:10] == "License ::"]
    approved = [name for name in classified if name in _LICENCES]
    written = str(about.get("License") or "").strip().splitlines()
    return str(about.get("License-Expression") or " OR ".join(approved) or (written[0] if written else "nothing"))


def _parts(licence: str) -> list[str]:
    if licence in _LICENCES:
        return [licence]
    return [part.strip(" ()") for part in re.split(r"\b(?:AND|OR|WITH)\b", licence)]


def _wanted_by(installed: Distribution, extras: frozenset[str]) -> list[Requirement]:
    wanted = [Requirement(line) for line in installed.requires or ()]
    scopes = [{"extra": extra} for extra in ("", *extras)]
    return [each for each in wanted if each.marker is None or any(each.marker.evaluate(scope) for scope in scopes)]
