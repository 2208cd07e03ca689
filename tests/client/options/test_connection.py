"""What the options of a connection mean together."""

from pathlib import Path

import pytest

from client.options.connection import Credentials
from common.protocol.errors import MisuseError


def test_prompts_leave_this_machine_in_plain_text_only_when_asked() -> None:
    for elsewhere in ("gpu.example.org:7070", "0.0.0.0:7070", "[::]:7070", "[::ffff:10.0.0.1]:7070"):
        with pytest.raises(MisuseError, match="plain text; use --tls"):
            Credentials(token="secret").access_to(elsewhere)
    assert Credentials(insecure=True).access_to("gpu.example.org:7070").tls is None
    assert Credentials(tls=True).access_to("gpu.example.org:7070").tls is not None
    assert Credentials().access_to("127.0.0.1:7070").tls is None


@pytest.mark.parametrize("file", [None, Path("token")])
def test_an_empty_token_is_refused_rather_than_left_out(file: Path | None) -> None:
    with pytest.raises(MisuseError, match="--token is empty; give"):
        Credentials(token="", token_file=file).access_to("127.0.0.1:7070")


def test_several_replicas_are_one_server_and_none_of_them_is_sent_plain_text() -> None:
    access = Credentials().access_to("127.0.0.1:7070,127.0.0.1:7071")
    assert [each.port for each in access.addresses] == [7070, 7071]
    with pytest.raises(MisuseError, match=r"travel to gpu\.example\.org:7070 in plain text"):
        Credentials().access_to("127.0.0.1:7070,gpu.example.org:7070")
