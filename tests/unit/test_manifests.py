"""Manifests are read once by a process, and again as soon as something touches them."""

import errno
import json
import os
from pathlib import Path

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.commits import manifests
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.manifests import FORMAT, Entry, read_manifest, sealed, to_bytes
from tempura.warehouse.warehouse import open_site
from tests.unit.bag_engine import BagEngine


def put(path: Path, n: int) -> None:
    path.write_bytes(to_bytes(sealed({"n": n})))


def test_what_is_read_twice_is_one_object(tmp_path: Path) -> None:
    put(tmp_path / "1.json", 1)
    first = read_manifest(tmp_path / "1.json")
    assert read_manifest(tmp_path / "1.json") is first
    assert first.made(len) == 2
    manifests.forget_manifests()
    again = read_manifest(tmp_path / "1.json")
    assert again == first
    assert again is not first


def test_one_that_was_altered_is_noticed_though_size_and_time_are_as_before(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    put(path, 1)
    os.utime(path, ns=(0, 10**18))
    read_manifest(path)
    changed = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == changed:  # the system's clock for files goes in steps
        path.write_bytes(path.read_bytes().replace(b'"n": 1', b'"n": 2'))
        os.utime(path, ns=(0, 10**18))
    with pytest.raises(TempuraError, match="LEDGER_CORRUPT"):
        read_manifest(path)


def test_another_one_under_the_name_is_read(tmp_path: Path) -> None:
    put(tmp_path / "1.json", 1)
    read_manifest(tmp_path / "1.json")
    put(tmp_path / "other", 2)
    (tmp_path / "other").replace(tmp_path / "1.json")
    assert read_manifest(tmp_path / "1.json")["n"] == 2
    (tmp_path / "1.json").unlink()
    with pytest.raises(TempuraError, match="LEDGER_CORRUPT"):
        read_manifest(tmp_path / "1.json")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EACCES, "NO_ACCESS"),
        (errno.EMFILE, "IO_FAILED"),
        (errno.ESTALE, "IO_FAILED"),
        (errno.ENOENT, "LEDGER_CORRUPT"),
    ],
)
def test_one_that_the_system_does_not_let_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def refuse(path: Path) -> bytes:
        raise OSError(number, os.strerror(number), str(path))

    put(tmp_path / "1.json", 1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(TempuraError, match=rf"{code}.*1\.json"):
            read_manifest(tmp_path / "1.json")
    assert read_manifest(tmp_path / "1.json")["n"] == 1


def test_nor_are_declarations_that_it_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, encoding: str) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    wh = open_site(tmp_path, BagEngine(), Files())
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(TempuraError, match=r"NO_ACCESS.*tempura\.toml"):
        wh.query("q")


def test_those_that_were_not_asked_for_are_forgotten(tmp_path: Path) -> None:
    size = len(to_bytes(sealed({"n": 0})))
    memory, read = manifests._Memory(2 * size), list[str]()

    def reading(path: Path) -> Entry:
        read.append(path.name)
        return Entry({})

    for n in range(3):
        put(tmp_path / str(n), n)
    for name in ("0", "1", "0", "2", "0", "1"):
        memory.recall(tmp_path / name, reading)
    assert read == ["0", "1", "2", "1"]


def test_a_digit_that_makes_no_other_number_is_noticed(tmp_path: Path) -> None:
    """The seal is of the bytes that were written, not of what they say."""
    path = tmp_path / "1.json"
    good = to_bytes(sealed({"seconds": 0.1 + 0.2}))
    altered = good.replace(b"0.30000000000000004", b"0.30000000000000005")
    assert json.loads(altered) == json.loads(good)
    assert altered != good
    path.write_bytes(good)
    assert read_manifest(path) == {"seconds": 0.1 + 0.2, "format": FORMAT}
    path.write_bytes(altered)
    with pytest.raises(TempuraError, match="LEDGER_CORRUPT"):
        read_manifest(path)
