"""A file that this process has read is not read again, unless it was touched or that is long ago."""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tempura.warehouse.commits import seals
from tempura.warehouse.commits.seals import any_damage, checksum, checksums, file_checksum, file_damage, has_checksum

ROWS = b"these are rows"
ROWS_CHECKSUM = "xxh3-56e97a0b0b055807ee683f7b0a95563a"
LATER = 2_000_000_000
"""Nanoseconds until a change that was just made would show."""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file is read, by name."""
    counted, read = Counter[str](), seals.file_checksum

    def counting(path: Path, *like: str) -> str:
        counted[path.name] += 1
        return read(path, *like)

    monkeypatch.setattr(seals, "file_checksum", counting)
    monkeypatch.setattr(seals, "_READ", {})
    return counted


@pytest.fixture
def pass_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let nanoseconds pass."""
    passed = 0

    def pass_by(nanoseconds: int) -> None:
        nonlocal passed
        passed += nanoseconds

    clock = SimpleNamespace(time_ns=lambda: time.time_ns() + passed, monotonic=lambda: time.monotonic() + passed / 1e9)
    monkeypatch.setattr(seals, "time", clock)
    return pass_by


def damage(path: Path) -> str | None:
    return file_damage(path, len(ROWS), ROWS_CHECKSUM)


def test_what_was_read_is_not_read_again(tmp_path: Path, reads: Counter[str], pass_by: Callable[[int], None]) -> None:
    path = tmp_path / "rows"
    path.write_bytes(ROWS)
    pass_by(LATER)
    assert [damage(path) for _ in range(3)] == [None] * 3
    assert reads == {"rows": 1}
    # But in the end it is: disks fail in silence.
    pass_by(3600 * 1_000_000_000)
    assert damage(path) is None
    assert reads == {"rows": 2}


def test_what_has_just_changed_may_change_again_unseen(tmp_path: Path, reads: Counter[str]) -> None:
    path = tmp_path / "rows"
    path.write_bytes(ROWS)
    assert damage(path) is None
    assert damage(path) is None
    assert reads == {"rows": 2}


@pytest.mark.parametrize("how", ["in place", "by another"])
def test_what_was_touched_is_read_again(
    tmp_path: Path, reads: Counter[str], pass_by: Callable[[int], None], how: str
) -> None:
    """Also where its size and the time of its content are as they were."""
    path, other = tmp_path / "rows", tmp_path / "other"
    path.write_bytes(ROWS)
    pass_by(LATER)
    assert damage(path) is None
    before = path.stat()
    time.sleep(0.05)  # so fine the times of files are at least
    written = path if how == "in place" else other
    written.write_bytes(ROWS[::-1])
    os.utime(written, ns=(before.st_atime_ns, before.st_mtime_ns))
    if written is other:
        other.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert damage(path) == f"file {path} was altered"
    assert reads == {"rows": 2}


def test_what_is_wrong_is_told_each_time(tmp_path: Path, reads: Counter[str], pass_by: Callable[[int], None]) -> None:
    path = tmp_path / "rows"
    path.write_bytes(ROWS[::-1])
    pass_by(LATER)
    assert damage(path) == damage(path) == f"file {path} was altered"
    path.write_bytes(ROWS)
    assert damage(path) is None
    path.unlink()
    assert damage(path) == f"file {path} is gone"


def test_of_several_files_the_first_that_is_wrong_is_told(tmp_path: Path, reads: Counter[str]) -> None:
    """In the order in which they are given, whichever is read first; and all are looked at where none is wrong."""
    paths = [tmp_path / f"rows{i}" for i in range(5)]
    for i, path in enumerate(paths):
        path.write_bytes(ROWS if i in (0, 1) else ROWS[::-1])
    files = [(path, len(ROWS), ROWS_CHECKSUM) for path in paths]
    assert any_damage(files) == f"file {paths[2]} was altered"
    reads.clear()
    assert any_damage(files[:2]) is None
    assert reads == {"rows0": 1, "rows1": 1}


def test_files_are_read_while_the_caller_goes_on(tmp_path: Path, reads: Counter[str]) -> None:
    paths = [tmp_path / f"rows{i}" for i in range(3)]
    for path in paths:
        path.write_bytes(path.name.encode())
    with checksums(paths) as read:
        assert [read(path) for path in paths] == [file_checksum(path) for path in paths]
    assert reads == {"rows0": 1, "rows1": 1, "rows2": 1}
    with pytest.raises(FileNotFoundError), checksums([tmp_path / "gone"]) as read:
        read(tmp_path / "gone")
    with pytest.raises(KeyboardInterrupt), checksums(paths):
        raise KeyboardInterrupt


def test_a_file_is_told_by_its_checksum_of_either_kind(
    tmp_path: Path, reads: Counter[str], pass_by: Callable[[int], None]
) -> None:
    """That of today, and the one that files had before, as manifests still have it."""
    path = tmp_path / "rows"
    path.write_bytes(ROWS)
    pass_by(LATER)
    kinds = (ROWS_CHECKSUM, checksum(ROWS))
    assert file_checksum(path) == ROWS_CHECKSUM
    for wanted in (*kinds, *kinds):
        assert has_checksum(path, wanted)
        assert file_damage(path, len(ROWS), wanted) is None
    path.write_bytes(ROWS[::-1])
    pass_by(LATER)
    for wanted in (*kinds, "", "xxh3-"):
        assert not has_checksum(path, wanted)
        assert file_damage(path, len(ROWS), wanted) == f"file {path} was altered"
