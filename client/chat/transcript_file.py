"""Transcripts in files that only their owner can read; the file name's suffix chooses the format.

Knows files and what a transcript is as text, and no conversation that is going on.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from client.chat import transcript
from client.chat.transcript import SavedChat
from common.atomic import atomic_file
from common.protocol.errors import MisuseError

_OWNER_ALONE = 0o600


@dataclass(frozen=True, slots=True)
class _FileFormat:
    write: Callable[[SavedChat, str], str]
    read: Callable[[str], SavedChat]


_FORMS = {
    ".json": _FileFormat(transcript.as_json, transcript.from_json),
    ".md": _FileFormat(transcript.as_markdown, transcript.from_markdown),
}


def file_of(name: str) -> Path:
    """What a person calls it. Raises MisuseError for a file in the home of nobody."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise MisuseError(f"{name} names an unknown user's home") from error


def save(file: Path, saved: SavedChat, model: str, own: Collection[Path]) -> None:
    """Writes the file, whole or not at all. Raises MisuseError if it cannot, and for one that exists and is not of a
    chat's `own`."""
    form = _form_of(file)
    try:
        if file.exists() and file.resolve() not in own:
            raise MisuseError(f"{file} exists already; choose another name")
        with atomic_file(file, _OWNER_ALONE) as written:
            written.write(form.write(saved, model).encode())
    except OSError as error:
        raise MisuseError(f"{file} cannot be written: {error.strerror}") from error


def load(file: Path) -> SavedChat:
    """Raises MisuseError if it cannot be read or is no conversation."""
    form = _form_of(file)
    try:
        return form.read(file.read_bytes().decode())
    except OSError as error:
        raise MisuseError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise MisuseError(f"{file} is not valid text") from error
    except MisuseError as error:
        raise MisuseError(f"{file} cannot be loaded: {error}") from error


def _form_of(file: Path) -> _FileFormat:
    form = _FORMS.get(file.suffix.lower())
    if form is None:
        raise MisuseError(f"choose a name that ends in {' or '.join(_FORMS)}, not '{file}'")
    return form
