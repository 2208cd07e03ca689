"""client.cache.checksummed: what was kept is returned whole or not at all."""

from client.cache.checksummed import read_checksummed, write_checksummed


def test_what_is_kept_comes_back_whole_or_not_at_all(tmp_path):
    file = tmp_path / "folder" / "file"
    assert read_checksummed(file) is None
    for kept in (b"", b"some bytes"):
        write_checksummed(file, kept)
        assert read_checksummed(file) == kept
    whole = file.read_bytes()
    for index in range(len(whole)):
        file.write_bytes(whole[:index])
        assert read_checksummed(file) is None
        file.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        assert read_checksummed(file) is None


def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path):
    (tmp_path / "folder").write_text("in the way")
    write_checksummed(tmp_path / "folder" / "file", b"some bytes")
    assert read_checksummed(tmp_path / "folder" / "file") is None
