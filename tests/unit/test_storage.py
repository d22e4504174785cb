"""Commits on other storage: stand-ins that behave like S3 and HDFS, and lose requests and answers as networks do."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, product, repeat
from pathlib import Path

import pytest

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.storage import HadoopStorage, LocalStorage, ObjectStorage, Storage

FAULTS = ("none", "request lost", "answer lost")
NAME = "wh/steps/7.json"


@dataclass
class Network:
    """Carries requests. ``faults`` say what happens to each in turn; before the n-th of them ``meanwhile`` is done."""

    faults: Iterator[str] = field(default_factory=lambda: repeat("none"))
    at: int = -1
    meanwhile: Callable[[], None] = lambda: None
    sent: int = 0

    def send(self, act: Callable[[], object]) -> object:
        if self.sent == self.at:
            self.meanwhile()
        self.sent += 1
        fault = next(self.faults)
        if fault == "request lost":
            raise TimeoutError
        try:
            answer = act()
        finally:
            if fault == "answer lost":
                raise TimeoutError
        return answer


class Bucket:
    """A stand-in for S3: 412 when there is an object, 409 for the first of two requests at once if told so."""

    def __init__(self, objects: dict[str, bytes], network: Network, conflicts: int = 0) -> None:
        self.objects, self.network, self.conflicts = objects, network, conflicts

    def put_if_none_match(self, key: str, data: bytes) -> None:
        self.network.send(lambda: self._put(key, data))

    def get(self, key: str) -> bytes:
        def found() -> bytes:
            if key not in self.objects:
                raise FileNotFoundError(key)
            return self.objects[key]

        return self.network.send(found)  # type: ignore[return-value]

    def _put(self, key: str, data: bytes) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise FileExistsError(key)
        if key in self.objects:
            raise FileExistsError(key)
        self.objects[key] = data


class NameNode:
    """A stand-in for HDFS."""

    def __init__(self, files: dict[str, bytes], network: Network) -> None:
        self.files, self.network = files, network

    def create_new(self, path: str, data: bytes) -> None:
        def create() -> None:
            if path in self.files:
                raise FileExistsError(path)
            self.files[path] = data

        self.network.send(create)

    def rename(self, source: str, target: str) -> None:
        def rename() -> None:
            if source not in self.files:
                raise FileNotFoundError(source)
            if target in self.files:
                raise FileExistsError(target)
            self.files[target] = self.files.pop(source)

        self.network.send(rename)

    def read(self, path: str) -> bytes:
        def found() -> bytes:
            if path not in self.files:
                raise FileNotFoundError(path)
            return self.files[path]

        return self.network.send(found)  # type: ignore[return-value]

    def remove(self, path: str) -> None:
        self.network.send(lambda: self.files.pop(path, None))


Kind = Callable[[dict[str, bytes], Network, str], Storage]


def s3(content: dict[str, bytes], network: Network, who: str) -> Storage:
    return ObjectStorage(Bucket(content, network))


def hdfs(content: dict[str, bytes], network: Network, who: str) -> Storage:
    return HadoopStorage(NameNode(content, network), f"wh/attempts/{who}.tmp")


@pytest.mark.parametrize("kind", [s3, hdfs])
class TestStandIns:
    def test_a_name_is_given_once(self, kind: Kind) -> None:
        content: dict[str, bytes] = {}
        kind(content, Network(), "a").create(NAME, b"a")
        with pytest.raises(FileExistsError):
            kind(content, Network(), "b").create(NAME, b"b")
        assert content == {NAME: b"a"}
        assert kind(content, Network(), "b").read(NAME) == b"a"
        with pytest.raises(FileNotFoundError):
            kind(content, Network(), "b").read("wh/steps/8.json")

    @pytest.mark.parametrize("at", range(-1, 8))
    def test_one_of_two_writers_wins_whatever_is_lost(self, kind: Kind, at: int) -> None:
        """The second comes in before any request of the first; who is told to have won has, and the other knows."""
        for faults in product(FAULTS, repeat=4):
            content: dict[str, bytes] = {}
            won: list[bytes] = []

            def write(
                who: bytes, network: Network, content: dict[str, bytes] = content, won: list[bytes] = won
            ) -> None:
                try:
                    kind(content, network, who.decode()).create(NAME, who)
                    won.append(who)
                except FileExistsError:
                    pass

            network = Network(chain(faults, repeat("none")), at, lambda write=write: write(b"b", Network()))  # type: ignore[misc]
            write(b"a", network)
            assert won == [content[NAME]], faults
            assert set(content) == {NAME}, "nothing is left"

    def test_a_storage_that_never_answers(self, kind: Kind) -> None:
        for fault in FAULTS[1:]:
            with pytest.raises(TempuraError) as error:
                kind({}, Network(repeat(fault)), "a").create(NAME, b"a")
            assert error.value.code == "STORAGE_SILENT"


def test_a_conflict_of_two_requests_at_once_is_asked_again() -> None:
    content: dict[str, bytes] = {}
    ObjectStorage(Bucket(content, Network(), conflicts=2)).create(NAME, b"a")
    assert content == {NAME: b"a"}


def test_on_local_files_one_of_many_wins(tmp_path: Path) -> None:
    told: list[int] = []

    def write(i: int) -> None:
        try:
            LocalStorage(Files(), tmp_path / f"{i}.tmp").create(str(tmp_path / NAME), str(i).encode())
            told.append(i)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert LocalStorage(Files(), tmp_path).read(str(tmp_path / NAME)) == str(told[0]).encode()
    assert len(told) == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["7.json"]


@pytest.mark.parametrize("path", ["s3://bucket/wh", "hdfs://host/wh", "gs://bucket/wh"])
def test_file_systems_that_cannot_commit_are_refused_at_open(path: str) -> None:
    with pytest.raises(TempuraError) as error:
        tp.open(path)
    assert error.value.code == "NO_ATOMIC_COMMIT"
    assert path in error.value.what
