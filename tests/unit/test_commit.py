"""Commits: killed at every file operation, failing at every file operation, and raced by another process."""

import errno
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.commits import locks
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import Ledger, attempt
from tempura.warehouse.commits.locks import HeldError
from tempura.warehouse.times import follow
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import SUMMARY, BagEngine, parse, write_rows
from tests.unit.dying import fork
from tests.unit.planned import planning_once

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SALES = "o_id INT, cat STRING, price INT"


planned = planning_once()


@pytest.fixture(autouse=True)
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same few plans at each operation."""
    monkeypatch.setattr(follow, "make_plan", planned)


def warehouse(folder: Path, files: Files) -> Warehouse:
    return open_site(folder / "wh", BagEngine(), files, lambda: NOON)


def prepare(folder: Path) -> None:
    write_rows(folder / "lake" / "a.parquet", parse(SALES), [(1, "c1", 100), (2, "c2", 150), (2, "c2", 150)])


def scenario(folder: Path, files: Files) -> None:
    """What a user's script does; each part can be done again."""
    wh = warehouse(folder, files)
    wh.add_table("sales", path=folder / "lake", schema=SALES)
    returns = wh.add_table("returns", schema="o_id INT, cost INT")
    query = wh.add_query("q", SUMMARY, schedule=Schedule.progressive({"14:00": 0.1, "24:00": 1.0}))
    if wh.status()["tables"]["returns"]["version"] < 1:
        returns.append([(1, 10), (1, 11)])  # type: ignore[arg-type]
    query.run(at="14:00", force=True, methods="im1") if not query.history() else None
    if wh.status()["tables"]["returns"]["version"] < 2:
        returns.apply([(2, 5, "insert"), (1, 11, "delete")])  # type: ignore[arg-type]
    query.run(at="24:00", force=True, methods="im1")


def check(folder: Path) -> None:
    """The result is exact, nothing was lost or done twice, and after gc there is as much on disk as if nothing had happened."""
    wh = warehouse(folder, Files())
    query = wh.query("q")
    result: object = query.result()
    assert result == SignedBag.of([("c1", 100, 1), ("c2", 300, 2)])
    assert query.verify()
    assert [entry.label for entry in query.history()] == ["2026-03-01 14:00", "2026-03-01 24:00"]
    assert [wh.status()["tables"][t]["version"] for t in ("sales", "returns")] == [1, 2]
    wh.gc()
    assert shape(folder) == EXPECTED_SHAPE


def shape(folder: Path) -> list[str]:
    """The files of a warehouse, identities of attempts replaced."""
    names = []
    for path in sorted((folder / "wh").rglob("*")):
        parts = [
            "ID" if len(part.split(".")[0].removeprefix("xxh3-")) == 32 else part
            for part in path.relative_to(folder / "wh").parts
        ]
        names.append("/".join(parts))
    return sorted(names)


EXPECTED_SHAPE = sorted(
    [
        ".tempura", ".tempura/attempts", ".tempura/declare.lock", ".tempura/format.json", "tempura.toml",
        "tables", "tables/sales", "tables/sales/arrivals", "tables/sales/arrivals/1.json",
        "tables/sales/held", "tables/sales/held/ID",
        "tables/returns", "tables/returns/arrivals", "tables/returns/arrivals/1.json", "tables/returns/arrivals/2.json",
        "tables/sales/sketches.json", "tables/returns/sketches.json",
        "tables/returns/data",
        *["tables/returns/data/ID", "tables/returns/data/ID/inserted", "tables/returns/data/ID/inserted/ID"] * 2,
        "tables/returns/data/ID/placed", "tables/returns/data/ID/placed/ID",
        "queries", "queries/q", "queries/q/steps", "queries/q/steps/1.json", "queries/q/steps/2.json",
        "queries/q/attempts",
        # Of the first run the state is kept, of the second the result: the plan of a last run saves nothing.
        "queries/q/attempts/ID", "queries/q/attempts/ID/states", "queries/q/attempts/ID/states/0",
        "queries/q/attempts/ID/states/0/rows.json",
        "queries/q/attempts/ID", "queries/q/attempts/ID/output", "queries/q/attempts/ID/output/rows.json",
    ]
)  # fmt: skip


def counting() -> tuple[Files, list[str]]:
    seen: list[str] = []
    return Files(lambda operation, path: seen.append(f"{operation} {path.name}")), seen


def at_operation(n: int, act: Callable[[], NoReturn]) -> Files:
    seen = [0]

    def before(operation: str, path: Path) -> None:
        seen[0] += 1
        if seen[0] == n:
            act()

    return Files(before)


def die() -> NoReturn:
    os._exit(99)


def fail() -> NoReturn:
    raise OSError(28, "No space left on device")


def killed(folder: Path, n: int) -> bool:
    """Run the scenario in a process that ends at the n-th file operation. Returns whether it came that far."""
    child = fork()
    if child == 0:
        try:
            scenario(folder, at_operation(n, die))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 99)
    return os.waitstatus_to_exitcode(status) == 99


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The file operations of the scenario when nothing goes wrong."""
    folder = tmp_path_factory.mktemp("calm")
    prepare(folder)
    files, seen = counting()
    scenario(folder, files)
    check(folder)
    return seen


def folders(tmp_path: Path, count: int) -> Iterator[tuple[int, Path]]:
    for n in range(1, count + 1):
        folder = tmp_path / str(n)
        prepare(folder)
        yield n, folder


@pytest.mark.slow
def test_killed_at_every_file_operation(tmp_path: Path, operations: list[str]) -> None:
    assert len(operations) > 100
    for n, folder in folders(tmp_path, len(operations)):
        assert killed(folder, n), operations[n - 1]
        scenario(folder, Files())
        check(folder)


@pytest.mark.slow
def test_failing_at_every_file_operation(tmp_path: Path, operations: list[str]) -> None:
    """An error of the system, unlike a kill, runs the clean-up: it must not take away what was committed."""
    codes: list[str] = []
    for n, folder in folders(tmp_path, len(operations)):
        with pytest.raises(TempuraError) as error:
            scenario(folder, at_operation(n, fail))
        codes.append(error.value.code)
        scenario(folder, Files())
        check(folder)
    # The very first commit asks whether the file system can do it.
    first = codes.count("NO_ATOMIC_COMMIT")
    assert error.value.code == "DISK_FULL"
    assert codes == ["NO_ATOMIC_COMMIT"] * first + ["DISK_FULL"] * (len(operations) - first)


def test_killed_in_gc(tmp_path: Path, operations: list[str]) -> None:
    last_commit = max(i for i, operation in enumerate(operations, 1) if operation.startswith("link"))
    for n in range(1, 50):
        folder = tmp_path / str(n)
        prepare(folder)
        assert killed(folder, last_commit)
        scenario(folder, Files())
        child = fork()
        if child == 0:
            warehouse(folder, at_operation(n, die)).gc()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        check(folder)
        if status == 0:
            # The attempt's folder, its temporary file and its lock, at least.
            assert n > 3
            return
    pytest.fail("gc never ended")


def test_data_is_flushed_before_the_manifest_names_it(operations: list[str]) -> None:
    """Of each commit: the temporary file is written and flushed, then linked, then the folder is flushed."""
    links = [i for i, o in enumerate(operations) if o.startswith("link") and o.endswith(".json")]
    assert len(links) == 6
    for i in links:
        kinds = [operation.split()[0] for operation in operations[i - 3 : i + 3]]
        assert kinds == ["create", "write", "sync", "link", "sync_folder", "remove"]
    pushed = next(i for i, o in enumerate(operations) if o.startswith("sync ") and o.endswith(".parquet"))
    assert pushed < operations.index("link 1.json", operations.index("link 1.json"))
    output = operations.index("sync rows.json")
    assert output < max(links)


def test_a_file_system_that_cannot_commit_is_refused(tmp_path: Path) -> None:
    def no_links(operation: str, path: Path) -> None:
        if operation == "link":
            raise OSError(errno.EPERM, "Operation not permitted")

    with pytest.raises(TempuraError) as error:
        warehouse(tmp_path, Files(no_links))
    assert error.value.code == "NO_ATOMIC_COMMIT"
    assert "Operation not permitted" in error.value.what


def test_files_of_others_in_a_ledger_are_no_entries(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "steps", Files())
    (tmp_path / "steps").mkdir()
    for name in ("².json", "¹-³.json", "forgotten-².json", "1 (copy).json", "1.json~", "a-b.json", ".DS_Store"):
        (tmp_path / "steps" / name).write_text("{}")
    with attempt(ledger.files, tmp_path / "attempts") as mine:
        ledger.append(mine, 1, {"by": 1})
    assert ledger.count() == 1
    assert [entry["by"] for entry in ledger.entries() if entry] == [1]
    assert ledger.superseded() == ()


def test_a_file_in_the_place_of_a_folder_is_no_other_process(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "steps", Files())
    (tmp_path / "steps").write_text("")
    with pytest.raises(TempuraError) as error, attempt(ledger.files, tmp_path / "attempts") as mine:
        ledger.append(mine, 1, {"by": 1})
    assert error.value.code == "IO_FAILED"
    assert f"{tmp_path / 'steps'}: Not a directory" in error.value.what


class TestRaces:
    def test_one_of_two_commits_wins_and_the_other_is_told(self, tmp_path: Path) -> None:
        ledger = Ledger(tmp_path / "steps", Files())
        barrier = threading.Barrier(8)
        told: list[str] = []

        def work(i: int) -> None:
            with attempt(ledger.files, tmp_path / "attempts") as mine:
                barrier.wait()
                try:
                    ledger.append(mine, 1, {"by": i})
                except TempuraError as error:
                    told.append(error.code)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert told == ["COMMIT_LOST"] * 7
        assert ledger.count() == 1
        assert list((tmp_path / "attempts").iterdir()) == []

    def test_who_only_looks_at_a_lock_does_not_hold_it(self, tmp_path: Path) -> None:
        lock, told = tmp_path / "run.lock", list[bool]()

        def held(how: int, seconds: float, signed: str) -> None:
            with lock.open("a+b") as file:
                file.truncate(0)
                file.write(signed.encode())
                file.flush()
                fcntl.flock(file, how)
                told.append(True)
                time.sleep(seconds)

        child = fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        dead = f'{{"host": "{socket.gethostname()}", "pid": {child}, "started": "2026-03-01"}}'
        for how, signed in ((fcntl.LOCK_SH, ""), (fcntl.LOCK_EX, ""), (fcntl.LOCK_EX, dead)):
            told.clear()
            other = threading.Thread(target=held, args=(how, 0.1, signed))
            other.start()
            while not told:
                time.sleep(0.001)
            assert not locks.is_held(lock)
            other.join()
            told.clear()
            other = threading.Thread(target=held, args=(how, 0.1, signed))
            other.start()
            while not told:
                time.sleep(0.001)
            with Files().lock(lock, wait=False):
                assert locks.is_held(lock)
                with pytest.raises(HeldError), Files().lock(lock, wait=False):
                    pass
            other.join()

    def test_a_lock_is_shared_or_held_alone(self, tmp_path: Path) -> None:
        files, lock, told = Files(), tmp_path / "a.lock", list[str]()

        def shares() -> None:
            with files.share(lock):
                told.append("shared")

        with files.share(lock), files.share(lock), pytest.raises(HeldError), files.lock(lock, wait=False):
            pass
        with files.lock(lock):
            thread = threading.Thread(target=shares)
            thread.start()
            thread.join(0.3)
            assert told == []
        thread.join()
        assert told == ["shared"]

    def test_a_second_process_is_told_while_the_first_runs(self, tmp_path: Path) -> None:
        prepare(tmp_path)
        told: list[TempuraError] = []

        def second(folder: Path) -> None:
            with pytest.raises(TempuraError) as error:
                scenario(folder, Files())
            told.append(error.value)

        with overtaken(tmp_path, "link", "2.json", at_path="steps", act=second) as files:
            scenario(tmp_path, files)
        assert [error.code for error in told] == ["RUN_IN_PROGRESS"]
        assert f"process {os.getpid()} on {socket.gethostname()}" in told[0].what
        check(tmp_path)

    def test_a_process_that_planned_a_step_which_another_has_run(self, tmp_path: Path) -> None:
        prepare(tmp_path)
        with overtaken(tmp_path, "lock", "run.lock", at_path="q") as files:
            with pytest.raises(TempuraError) as error:
                scenario(tmp_path, files)
            assert error.value.code == "COMMIT_LOST"
            assert "q/steps/1.json" in error.value.what
        check(tmp_path)

    def test_a_lock_of_another_machine_counts_while_its_heart_beats(self, tmp_path: Path) -> None:
        prepare(tmp_path)
        scenario(tmp_path, Files())
        lock = tmp_path / "wh/queries/q/run.lock"
        lock.write_text('{"host": "elsewhere", "pid": 1, "started": "2026-03-01"}')
        query = warehouse(tmp_path, Files()).add_query("q", SUMMARY, schedule=Schedule.view())
        warehouse(tmp_path, Files()).table("returns").append([(1, 1)])  # type: ignore[arg-type]
        with pytest.raises(TempuraError) as error:
            query.run()
        assert error.value.code == "RUN_IN_PROGRESS"
        assert "process 1 on elsewhere" in error.value.what
        assert not Files().remove_lock(lock)
        os.utime(lock, (0, 0))
        assert query.run().n == 3
        assert not lock.exists()

    def test_gc_leaves_the_work_of_another_machine_alone(self, tmp_path: Path) -> None:
        prepare(tmp_path)
        scenario(tmp_path, Files())
        wh = warehouse(tmp_path, Files())
        wh.gc()
        id = "a" * 32
        lock, folder = wh.path / f".tempura/attempts/{id}.lock", wh.path / f"queries/q/attempts/{id}"
        folder.mkdir()
        lock.write_text('{"host": "elsewhere", "pid": 1, "started": "2026-03-01"}')
        assert wh.gc() == ()
        os.utime(lock, (0, 0))
        assert set(wh.gc()) == {f"queries/q/attempts/{id}", f".tempura/attempts/{id}.lock"}

    def test_two_processes_register_the_same_files(self, tmp_path: Path) -> None:
        prepare(tmp_path)

        def register(folder: Path) -> None:
            warehouse(folder, Files()).table("sales").df()

        with overtaken(tmp_path, "link", "1.json", at_path="sales/arrivals", act=register) as files:
            scenario(tmp_path, files)
        check(tmp_path)

    def test_gc_leaves_work_in_progress_alone(self, tmp_path: Path) -> None:
        prepare(tmp_path)

        def gc(folder: Path) -> None:
            removed = warehouse(folder, Files()).gc()
            assert removed == ()

        for name, where in (("2.json", "steps"), ("2.json", "returns/arrivals"), ("1.json", "sales/arrivals")):
            folder = tmp_path / where.replace("/", "-")
            prepare(folder)
            with overtaken(folder, "link", name, at_path=where, act=gc) as files:
                scenario(folder, files)
            check(folder)

    def test_two_edits_of_the_declarations(self, tmp_path: Path) -> None:
        warehouse(tmp_path, Files())

        def add(i: int) -> None:
            warehouse(tmp_path, Files()).add_table(f"t{i}", schema="a INT")

        threads = [threading.Thread(target=add, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(warehouse(tmp_path, Files()).status()["tables"]) == [f"t{i}" for i in range(8)]


@contextmanager
def overtaken(
    folder: Path, operation: str, name: str, at_path: str, act: Callable[[Path], None] | None = None
) -> Iterator[Files]:
    """Files at whose given operation, once, another process is faster."""
    done: list[str] = []

    def other(folder: Path) -> None:
        scenario(folder, Files())

    def before(found: str, path: Path) -> None:
        if not done and found == operation and path.name == name and str(path.parent).endswith(at_path):
            done.append(found)
            (act or other)(folder)

    yield Files(before)
    assert done
