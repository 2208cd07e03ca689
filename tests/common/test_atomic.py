"""Files and folders that appear whole: two writers at once, writers that are killed, disks that lose power."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from common.atomic import atomic_file, atomic_folder, scratch_folder

KILLED = """
import sys, time
from pathlib import Path
from common.atomic import atomic_file, atomic_folder

with {kind}(Path(sys.argv[1])) as part:
    print("growing", flush=True)
    time.sleep(60)
"""


def fill(kind: str, path: Path, text: bytes) -> None:
    if kind == "atomic_file":
        with atomic_file(path) as file:
            file.write(text)
    else:
        with atomic_folder(path) as folder:
            (folder / "inside").mkdir()
            (folder / "inside" / "a").write_bytes(text)


def content(path: Path) -> bytes:
    return (path / "inside" / "a" if path.is_dir() else path).read_bytes()


@pytest.mark.parametrize("kind", ["atomic_file", "atomic_folder"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_process_left_is_removed_and_what_one_still_writes_is_not(tmp_path, kind, number):
    path = tmp_path / "kept[1]"
    commands = [(sys.executable, "-c", KILLED.format(kind=kind), str(path)) for _ in range(2)]
    dying, living = (subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands)
    with dying, living:
        assert [each.stdout.readline() for each in (dying, living)] == ["growing\n"] * 2
        dying.send_signal(number)
        dying.wait(20)
        assert len(list(tmp_path.iterdir())) == 2
        fill(kind, path, b"whole")
        assert content(path) == b"whole"
        assert len(list(tmp_path.iterdir())) == 2
        living.kill()


def test_a_scratch_folder_goes_and_so_does_one_that_a_killed_process_left(tmp_path):
    left = tmp_path / "kept.0123456789abcdef.part"
    left.mkdir()
    (left / "a").touch()
    with scratch_folder(tmp_path / "kept") as one, scratch_folder(tmp_path / "kept") as other:
        assert {*tmp_path.iterdir()} == {one, other}
    assert not [*tmp_path.iterdir()]


def test_two_writers_do_not_meet_though_their_process_ids_are_the_same(tmp_path):
    path = tmp_path / "kept"
    with atomic_file(path) as first:
        first.write(b"1" * 100)
        with atomic_file(path) as second:
            second.write(b"2")
        assert content(path) == b"2"
    assert content(path) == b"1" * 100
    assert list(tmp_path.iterdir()) == [path]


def test_the_first_folder_of_a_name_stays(tmp_path):
    path = tmp_path / "kept"
    fill("atomic_folder", path, b"first")
    with pytest.raises(OSError, match="not empty"):
        fill("atomic_folder", path, b"second")
    assert content(path) == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["atomic_file", "atomic_folder"])
def test_what_fails_half_way_leaves_what_was_there(tmp_path, kind):
    path = tmp_path / "kept"
    fill("atomic_file", path, b"before")
    with pytest.raises(KeyError), {"atomic_file": atomic_file, "atomic_folder": atomic_folder}[kind](path):
        raise KeyError
    assert content(path) == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="names open files as Linux shows them")
@pytest.mark.parametrize("kind", ["atomic_file", "atomic_folder"])
def test_all_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, kind):
    path, synced, sync = tmp_path / "kept", [], os.fsync

    def fsync(descriptor: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{descriptor}")).name, path.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    fill(kind, path, b"a")
    assert synced[-1] == (tmp_path.name, True)
    assert [exists for _, exists in synced[:-1]] == [False] * (len(synced) - 1)
    if kind == "atomic_folder":
        assert {"inside", "a"} <= {name for name, _ in synced}
    assert any(name.startswith("kept.") for name, _ in synced)


@pytest.mark.parametrize("step", ["touch", "flock"])
def test_a_writer_whose_part_was_taken_before_it_was_locked_begins_again(tmp_path, monkeypatch, step):
    """By another one, which cannot tell it from what a killed process left."""
    path, made = tmp_path / "kept", []
    touch, flock = Path.touch, fcntl.flock

    def touched(part: Path, **how) -> None:
        made.append(part)
        touch(part, **how)
        if len(made) == 1 and step == "touch":
            part.unlink()

    def locked(descriptor: int, how: int) -> None:
        flock(descriptor, how)
        if len(made) == 1 and step == "flock":
            made[0].unlink()

    monkeypatch.setattr(Path, "touch", touched)
    monkeypatch.setattr(fcntl, "flock", locked)
    fill("atomic_file", path, b"a")
    assert len(made) == 2
    assert content(path) == b"a"


def test_parts_of_other_programs_and_files_stay(tmp_path):
    others = [
        tmp_path / name for name in ("kept.part", "kept.safetensors.part", "kept.1.part", "kept.0123456789abcdef")
    ]
    for each in others:
        each.touch()
    fill("atomic_file", tmp_path / "kept", b"a")
    assert all(each.exists() for each in others)


def test_many_at_once_all_end_whole(tmp_path):
    path, failures = tmp_path / "kept", []

    def write(text: bytes) -> None:
        try:
            for _ in range(20):
                fill("atomic_file", path, text * 1000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(b"%d" % each,)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
    assert len(set(content(path))) == 1
    assert list(tmp_path.iterdir()) == [path]
