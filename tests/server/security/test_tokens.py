"""The operator's file of bearer tokens: the name and quota of each, and the faults of a file."""

from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from common.rpc.credentials import bearer_metadata
from server.security.tokens import NOBODY, Tokens, read_tokens
from server.sessions.quotas import Allowance

NAMED = """
[alice]
token = "one"
max_sessions = 2
tokens_per_minute = 1000
requests_per_minute = 30

["bob's laptop"]
token = "two"
"""


def read(path: Path, text: str) -> Tokens:
    path.write_text(text)
    tokens = read_tokens(None, path)
    assert tokens is not None
    return tokens


def test_each_token_has_a_name_and_an_allowance(tmp_path: Path) -> None:
    tokens = read(tmp_path / "tokens.toml", NAMED)
    borne = [*map(bearer_metadata, ("one", "two", "three", "")), (("authorization", "Bearer one"),) * 2]
    assert [tokens.holder(metadata) for metadata in borne] == ["alice", "bob's laptop", None, None, None]
    assert tokens.allowances == {"alice": Allowance(2, 1000, 30), "bob's laptop": Allowance()}


def test_a_token_that_all_share_stands_beside_them(tmp_path: Path) -> None:
    named, shared = tmp_path / "tokens.toml", tmp_path / "token"
    named.write_text(NAMED)
    shared.write_text("three\n")
    tokens = read_tokens(shared, named)
    assert tokens is not None
    assert [tokens.holder(bearer_metadata(token)) for token in ("one", "three", "four")] == ["alice", NOBODY, None]
    assert read_tokens(None, None) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "names no token"),
        ("[alice", "is not valid TOML"),
        ("alice = 'one'", r"\[alice\] has no token"),
        ("[alice]\nmax_sessions = 2", r"\[alice\] has no token"),
        ("[alice]\ntoken = 7", r"\[alice\] has no token"),
        ("[alice]\ntoken = ''", "that no call can bear"),
        ("[alice]\ntoken = 'é'", "that no call can bear"),
        ("[alice]\ntoken = 's3cret '", "that no call can bear"),
        ("[alice]\ntoken = 'one'\nmax_session = 2", "no key 'max_session'; did you mean max_sessions?"),
        ("[alice]\ntoken = 'one'\ncolour = 2", "no key 'colour'; a token has token, max_sessions"),
        ("[alice]\ntoken = 'one'\nmax_sessions = 0", "max_sessions must be a whole number, 1 or more"),
        ("[alice]\ntoken = 'one'\ntokens_per_minute = '9'", "tokens_per_minute must be a whole number"),
        ("[alice]\ntoken = 'one'\nrequests_per_minute = true", "requests_per_minute must be a whole number"),
        ("[alice]\ntoken = 'one'\n[bob]\ntoken = 'one'", "two names have the same token"),
    ],
)
def test_what_makes_no_sense_is_said_without_a_token(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=sentence) as error:
        read(tmp_path / "tokens.toml", text)
    assert "'one'" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"nothing\.toml cannot be read"):
        read_tokens(None, tmp_path / "nothing.toml")
