"""The bearer tokens that this server accepts, by name, each with its quota, as the operator's file lists them.

It may not know gRPC, nor what happens to a client without a valid token.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from common.programs.configuration_file import read_toml
from common.programs.nearest import did_you_mean
from common.protocol.errors import MisuseError
from common.rpc.credentials import CallMetadata, bears, fits_into_a_header, read_token
from server.sessions.quotas import Allowance

NOBODY = ""
"""The client name where all clients share one token, or where no token is asked for."""

_LIMITS = tuple(limit.name for limit in fields(Allowance))
_KEYS = ("token", *_LIMITS)


@dataclass(frozen=True, slots=True)
class _Named:
    secret: str
    allowance: Allowance


class Tokens:
    def __init__(self, named: Mapping[str, _Named]):
        self._named = dict(named)

    @property
    def allowances(self) -> dict[str, Allowance]:
        return {name: token.allowance for name, token in self._named.items()}

    def holder(self, metadata: CallMetadata) -> str | None:
        """The name of the token that a call bears, None where it is none of these. All are compared, always."""
        held = [name for name, token in self._named.items() if bears(metadata, token.secret)]
        return held[0] if held else None


def read_tokens(shared: Path | None, named: Path | None) -> Tokens | None:
    """The token in the file `shared`, those in the TOML file `named`; None where there is neither.

    Raises MisuseError where one cannot be read, or makes no sense.
    """
    if shared is None and named is None:
        return None
    tokens = {} if named is None else _read_named(named)
    if shared is not None:
        tokens[NOBODY] = _Named(read_token(shared), Allowance())
    secrets = [token.secret for token in tokens.values()]
    if len(set(secrets)) < len(secrets):
        raise MisuseError("two names have the same token, so they cannot be told apart; make another")
    return Tokens(tokens)


def _read_named(path: Path) -> dict[str, _Named]:
    content = read_toml(path, "tokens file")
    if not content:
        raise MisuseError(f'the tokens file {path} names no token; write [name] and token = "..." into it')
    return {name: _named(f"{path}: [{name}]", table) for name, table in content.items()}


def _named(where: str, table: Any) -> _Named:
    if not isinstance(table, dict) or not isinstance(table.get("token"), str):
        raise MisuseError(f'{where} has no token; write token = "..." below its name')
    for key in table:
        if key not in _KEYS:
            meant = did_you_mean(key, _KEYS) or f"a token has {', '.join(_KEYS)}"
            raise MisuseError(f"{where} has no key '{key}'; {meant}")
    limits = {key: table[key] for key in _LIMITS if key in table}
    for key, value in limits.items():
        if type(value) is not int or value < 1:
            raise MisuseError(f"{where} {key} must be a whole number, 1 or more; leave it out for no limit")
    if not fits_into_a_header(table["token"]):
        raise MisuseError(f"{where} has a token that no call can bear; write printable ASCII, no space at its end")
    return _Named(table["token"], Allowance(**limits))
