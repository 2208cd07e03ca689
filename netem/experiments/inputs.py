"""The identity of what a run reads from outside the repository, models aside: files of data and prompts, and llama.cpp.

May know the options of runs. It may not know what an experiment does with them.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from netem.experiments.experiment import DATA, LLAMA_SERVER, MODELS, Request
from netem.experiments.others.llama_server import find_llama_server, version_of

_EVALUATION = "eval"
_PROMPTS = "prompts.jsonl"


def inputs(request: Request) -> dict[str, dict[str, str | int]]:
    """By option and name, the size and the hash of each file, and the version of llama.cpp's server where it was named;
    what ships is of the commit. Raises MisuseError where that server is missing."""
    found: dict[str, dict[str, str | int]] = {
        f"{option} {path.name}": _identity(path) for option, path in _files(request)
    }
    if request.llama_server is not None:
        found[LLAMA_SERVER] = {"version": version_of(find_llama_server(request.llama_server))}
    return found


def _files(request: Request) -> Iterator[tuple[str, Path]]:
    if request.data is not None:
        yield from ((DATA, path) for path in sorted((request.data / _EVALUATION).glob("*")) if path.is_file())
    if request.models is not None and (request.models / _PROMPTS).is_file():
        yield MODELS, request.models / _PROMPTS


def _identity(file: Path) -> dict[str, str | int]:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": file.stat().st_size, "sha256": digest}
