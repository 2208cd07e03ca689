"""What is cached about a server is returned whole or not at all."""

from dataclasses import replace

import pytest

from client.cache.known_servers import recall, remember
from common.bundle import BundleFile, make_manifest
from common.protocol.messages import PROTOCOL_VERSION
from common.rpc.description import ServerDescription

HERE, THERE = "127.0.0.1:7070", "127.0.0.1:7071"
BUNDLE = make_manifest("d", "lookup", "f", [BundleFile("tokenizer/tokenizer.json", 3, "0" * 64)])
SAID = ServerDescription(
    PROTOCOL_VERSION, "0.1", "model", "f", 300, 2048, 512, (0,), ("greedy",), ("eager",), (BUNDLE,)
)


@pytest.fixture
def kept(tmp_path):
    """The one file of a cache that knows a server."""
    remember(tmp_path, HERE, SAID)
    (file,) = (tmp_path / "servers").iterdir()
    return file


def test_what_a_server_said_is_kept_for_its_address(tmp_path):
    assert recall(tmp_path, HERE) is None
    remember(tmp_path, HERE, SAID)
    remember(tmp_path, THERE, replace(SAID, model="another"))
    assert recall(tmp_path, HERE) == SAID
    assert recall(tmp_path, THERE).model == "another"
    remember(tmp_path, HERE, replace(SAID, context=100))
    assert recall(tmp_path, HERE).context == 100
    assert len(list((tmp_path / "servers").iterdir())) == 2


def test_a_damaged_file_is_as_good_as_none(tmp_path, kept):
    whole = kept.read_bytes()
    for index in range(len(whole)):
        kept.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        assert recall(tmp_path, HERE) is None
        kept.write_bytes(whole[:index])
        assert recall(tmp_path, HERE) is None
    kept.write_bytes(whole)
    assert recall(tmp_path, HERE) == SAID


def test_what_a_server_of_another_version_said_is_of_no_use(tmp_path):
    remember(tmp_path, HERE, replace(SAID, version=PROTOCOL_VERSION + 1))
    assert recall(tmp_path, HERE) is None


def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path):
    (tmp_path / "file").write_text("in the way")
    remember(tmp_path / "file", HERE, SAID)
    assert recall(tmp_path / "file", HERE) is None


def test_a_folder_in_place_of_the_file_is_no_fault(tmp_path, kept):
    kept.unlink()
    kept.mkdir()
    assert recall(tmp_path, HERE) is None
    remember(tmp_path, HERE, SAID)


def test_each_target_that_was_asked_for_by_name_is_kept_apart(tmp_path):
    remember(tmp_path, HERE, SAID)
    remember(tmp_path, HERE, replace(SAID, context=100), "other")
    assert recall(tmp_path, HERE) == SAID
    assert recall(tmp_path, HERE, "other").context == 100
    assert recall(tmp_path, HERE, "third") is None


def test_a_target_that_is_asked_for_by_name_may_be_known_as_the_first(tmp_path):
    remember(tmp_path, HERE, SAID)
    assert recall(tmp_path, HERE, "model") == SAID
    assert recall(tmp_path, THERE, "model") is None
