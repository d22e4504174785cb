"""A thousand arrivals: read from few files, kept in few bytes, by work that does not grow. Counts, because times depend on the machine."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import totals
from tempura.warehouse.batches.compaction import Plane
from tempura.warehouse.commits import ledger, manifests
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.spans import spans
from tempura.warehouse.engine import Source
from tempura.warehouse.runs.run import alone
from tempura.warehouse.tables.compact import compact
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, SUMMARY, BagEngine, Row, bag, parse, write_rows
from tests.unit.dying import fork
from tests.unit.test_commit import at_operation, counting, die
from tests.unit.test_warehouse_lakes import ON, add, commit

STEPS = 1000
SOME_STEPS = 300
"""More than are stored together at most, 256."""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SALES = "o_id INT, cat STRING, price INT"
CHANGES = f"{SALES}, _change STRING"


@dataclass
class Churning:
    """A table in which, at each step, some rows come and as many go."""

    folder: Path
    random: Random = field(default_factory=lambda: Random(5))
    rows: list[Row] = field(default_factory=list)
    key: int = 0

    def __post_init__(self) -> None:
        self.wh = open_site(self.folder / "wh", BagEngine(), Files(), lambda: NOON)
        self.table = self.wh.add_table("sales", schema=SALES)

    @property
    def arrivals(self) -> Arrivals:
        return self.table.arrivals

    def come(self, count: int) -> list[Row]:
        self.key += count
        return [(self.key - i, f"c{self.random.randrange(6)}", self.random.randrange(99)) for i in range(count)]

    def step(self, come: int = 2, go: int = 2) -> None:
        gone, new = self.random.sample(self.rows, go), self.come(come)
        changes = [(*r, "insert") for r in new] + [(*r, "delete") for r in gone]
        self.table.apply(changes, trust=True)  # type: ignore[arg-type]
        self.rows = [row for row in self.rows if row not in gone] + new

    def bag(self, after: int, upto: int) -> SignedBag:
        source = self.arrivals.source(after, upto)
        return bag(source, source.schema.names)

    def files(self, after: int, upto: int) -> int:
        rows = self.arrivals.source(after, upto).rows
        return len(rows.inserted) + len(rows.deleted)


@pytest.fixture
def churning(tmp_path: Path) -> Churning:
    made = Churning(tmp_path)
    made.step(come=150, go=0)
    return made


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that are read."""
    seen: list[str] = []
    real = manifests._read

    def read(path: Path) -> manifests.Entry:
        seen.append(path.name)
        return real(path)

    monkeypatch.setattr(manifests, "_read", read)
    return seen


def data_bytes(table: Arrivals) -> int:
    return sum(f.stat().st_size for f in table.shelf.copies.rglob("*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [SOME_STEPS, pytest.param(STEPS, marks=pytest.mark.full)])
def test_many_steps_of_churn_cost_no_more_late_than_early(churning: Churning, opened: list[str], steps: int) -> None:
    """Files opened per read, manifests read and files written per step, and bytes on disk after gc are bounded."""
    written, read, files, bytes, stored = [], [], [], [], []
    for step in range(2, steps + 1):
        manifests.forget_manifests()
        opened.clear()
        before = set(churning.arrivals.shelf.copies.iterdir())
        churning.step()
        read.append(len(opened))
        written.append(len(set(churning.arrivals.shelf.copies.iterdir()) - before))
        if step % 50 == 0:
            files.append(churning.files(0, step))
            assert churning.bag(0, step) == SignedBag.of(churning.rows)
            churning.wh.gc()
            bytes.append(data_bytes(churning.arrivals))
            stored.append(sum(totals(churning.arrivals.blocks.read(churning.arrivals.arrivals(), 0, step))))
    half, live = steps // 2, len(churning.rows)
    # At most fifteen blocks of 256, fifteen of sixteen, and fifteen arrivals, each of inserts and deletes; one of all before.
    assert max(files) <= 2 * (3 * 15 + 1), files
    assert max(read[half:]) <= 1.5 * max(read[:half]), "work per step does not grow with the steps"
    assert sum(written[half:]) <= 1.2 * sum(written[:half]), "copying goes on as it began"
    assert sum(written) < 1.25 * steps, "an arrival in sixteen is stored together with others"
    assert max(stored) <= 3 * live, "rows that were deleted again are left out"
    table = churning.wh.add_table("live", schema=SALES)
    table.append(churning.rows)  # type: ignore[arg-type]
    # Each of these tiny files has a footer that is larger than its rows.
    assert max(bytes) <= 3 * data_bytes(table.arrivals) + 1500 * max(files), bytes


@pytest.mark.slow
def test_any_range_is_read_exactly(churning: Churning) -> None:
    """Before gc all ranges can be asked for, whatever is stored together."""
    for _ in range(70):
        churning.step()
    singles = churning.arrivals.arrivals()
    schema = churning.arrivals.schema
    parts = [bag(Source(schema, churning.arrivals.rows_of(a)), schema.names) for a in singles]
    assert len(churning.arrivals.blocks.now().blocks) > 3
    for after in range(0, 72, 8):
        for upto in range(after, 72, 7):
            assert churning.bag(after, upto) == sum(parts[after:upto], SignedBag()), (after, upto)


@pytest.mark.slow
def test_versions_of_results_and_states_can_be_read_after_gc(churning: Churning) -> None:
    """Old originals go, but none between two versions that a result or a state is of."""
    early = churning.wh.add_query("early", COUNT, schedule=Schedule.view())
    late = churning.wh.add_query("late", COUNT, schedule=Schedule.view())
    for step in range(2, 120):
        churning.step()
        if step == 37:
            early.run()
        if step % 10 == 0:
            late.run()
    referred = [0, 37, 100, 110, 119]
    ranges = [(a, b) for a in referred for b in referred if a <= b]
    expected = {r: churning.bag(*r) for r in ranges}
    removed = churning.wh.gc()
    assert removed.bytes["rows"] > 0
    assert churning.wh.gc() == ()
    for r in ranges:
        assert churning.bag(*r) == expected[r], r
    assert early.verify()
    assert late.verify()
    with pytest.raises(TempuraError) as error:
        churning.bag(0, 20)
    assert error.value.code == "VERSION_COLLECTED"
    early.run()
    assert early.verify()
    churning.wh.gc(keep=1)
    with pytest.raises(TempuraError, match="VERSION_COLLECTED"):
        churning.bag(0, 37)


def test_gc_reports_what_it_would_free_by_kind(churning: Churning) -> None:
    """Line 6 of "stuck for good"."""
    query = churning.wh.add_query("n", COUNT, schedule=Schedule.view())
    for _ in range(40):
        churning.step()
        query.run()
    (churning.arrivals.shelf.copies / ("a" * 32)).mkdir()
    (churning.arrivals.shelf.copies / ("a" * 32) / "part").write_bytes(b"12345")
    before = sum(f.stat().st_size for f in churning.wh.path.rglob("*") if f.is_file())
    would = churning.wh.gc(dry_run=True)
    assert sum(f.stat().st_size for f in churning.wh.path.rglob("*") if f.is_file()) == before
    assert would.bytes["left behind"] == 5
    assert {"rows", "results", "left behind"} <= set(would.bytes)
    did = churning.wh.gc()
    assert (set(did), did.bytes) == (set(would), would.bytes)
    after = sum(f.stat().st_size for f in churning.wh.path.rglob("*") if f.is_file())
    notes = sum(f.stat().st_size for f in churning.wh.path.rglob("sole-*"))
    assert before - after == sum(did.bytes.values()) - notes


def test_a_running_query_keeps_all_originals(churning: Churning) -> None:
    churning.wh.add_query("n", COUNT, schedule=Schedule.view()).run()
    for _ in range(40):
        churning.step()
    with churning.arrivals.site.files.lock(churning.wh.path / "queries/n/run.lock"):
        assert churning.wh.gc().bytes.get("rows", 0) == 0
    assert churning.wh.gc().bytes["rows"] > 0


def test_a_damaged_copy_is_not_stored_together(churning: Churning) -> None:
    for _ in range(14):
        churning.step()
    victim = next(churning.arrivals.shelf.copies.rglob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-1] + b"x")
    churning.step()
    churning.table.append([(1, "a", 1)])  # type: ignore[arg-type]
    assert churning.arrivals.blocks.now().blocks == frozenset()
    with pytest.raises(TempuraError, match="ROWS_DAMAGED"):
        churning.bag(0, 17)


def test_files_that_are_read_in_place_are_left_alone(tmp_path: Path) -> None:
    wh = open_site(tmp_path / "wh", BagEngine(), Files(), lambda: NOON)
    (tmp_path / "lake").mkdir()
    table = wh.add_table("sales", path=tmp_path / "lake", schema=SALES)
    for i in range(35):
        write_rows(tmp_path / "lake" / f"{i}.parquet", parse(SALES), [(i, "a", i)])
        table.df()
    assert table.arrivals.blocks.now().blocks == frozenset()
    assert len(table.arrivals.source(0, 35).rows.inserted) == 35


@pytest.mark.parametrize("format", ["csv", "json"])
def test_copies_of_text_files_are_not_stored_together(tmp_path: Path, format: str) -> None:
    """A refresh has to tell what each file has brought; after a reset the copies of before go."""
    wh = open_site(tmp_path / "wh", BagEngine(), Files(), lambda: NOON)
    lake = tmp_path / "lake"
    lake.mkdir()
    table = wh.add_table("sales", path=lake, schema="o_id INT, cat STRING", format=format)

    def put(name: str, keys: Sequence[int]) -> None:
        rows = {"csv": "o_id,cat\n" + "".join(f"{i},a\n" for i in keys)}
        rows["json"] = "".join(f'{{"o_id": {i}, "cat": "a"}}\n' for i in keys)
        (lake / f"{name}.{format}").write_text(rows[format])

    for i in range(18):
        put(str(i), [i])
        table.df()
    assert table.arrivals.blocks.now().blocks == frozenset()
    assert len(table.arrivals.source(0, 18).rows.inserted) == 18
    for file in lake.iterdir():
        file.unlink()
    put("all", range(18))
    table.refresh()
    found: object = table.df()
    assert found == SignedBag.of([(i, "a") for i in range(18)])
    assert len(table.arrivals.source(0, table.arrivals.version()).rows.inserted) == 18
    table.reset()
    wh.gc()
    assert len(list(table.arrivals.shelf.copies.rglob("*.parquet"))) == 1
    found = table.df()
    assert found == SignedBag.of([(i, "a") for i in range(18)])


class Kept:
    """Tables whose rows the warehouse keeps, and how something arrives in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = BagEngine()
        self.wh = open_site(folder / "wh", self.engine, Files(), lambda: NOON)
        self.wh.add_table("sales", schema=SALES, keys=["o_id"])
        self.engine.lake_columns = SALES

    def sales(self, n: int) -> Any:
        return [(n, "a", n)]

    def append(self, n: int) -> Arrivals:
        self.wh.table("sales").append(self.sales(n))
        return self.wh.table("sales").arrivals

    def upsert(self, n: int) -> Arrivals:
        self.wh.table("sales").upsert(self.sales(n % 3))
        return self.wh.table("sales").arrivals

    def transaction(self, n: int) -> Arrivals:
        with self.wh.transaction() as t:
            t.table("sales").append(self.sales(n))
        return self.wh.table("sales").arrivals

    def query(self, n: int) -> Arrivals:
        self.append(n)
        if n == 0:
            self.wh.add_query("n", COUNT, schedule=Schedule.view())
            self.wh.add_table("counts", query="n")
        self.wh.query("n").run()
        self.wh.table("counts").df()
        return self.wh.table("counts").arrivals

    def folder_of_changes(self, n: int) -> Arrivals:
        lake = self.folder / "changes"
        lake.mkdir(exist_ok=True)
        write_rows(lake / f"{n}.parquet", parse(CHANGES), [(n, "a", n, "insert")])
        if n == 0:
            self.wh.add_table("told", path=lake, schema=SALES)
        self.wh.table("told").df()
        return self.wh.table("told").arrivals

    def lake(self, n: int) -> Arrivals:
        commit(self.folder / "delta", n, *([ON] if n == 0 else []), add(str(n)))
        self.engine.lakes[str(n)] = [(n, "a", n, "insert")]
        if n == 0:
            self.wh.add_table("d", path=self.folder / "delta", schema=SALES, format="delta")
        self.wh.table("d").df()
        return self.wh.table("d").arrivals


@pytest.mark.parametrize("how", ["append", "upsert", "transaction", "query", "lake", "folder_of_changes"])
def test_arrivals_of_every_kind_that_the_warehouse_keeps_are_stored_together(tmp_path: Path, how: str) -> None:
    """Line 6 of "stuck for good": a managed table has one format, Parquet of the warehouse's own, however rows come into it."""
    kept = Kept(tmp_path)
    for n in range(17):
        arrivals = getattr(kept, how)(n)
    assert (0, 16) in arrivals.blocks.now().blocks
    rows = arrivals.source(0, 17).rows
    assert len(rows.inserted) + len(rows.deleted) <= 4


def test_two_processes_store_the_same_together(churning: Churning, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(15):
        churning.step()
    done: list[int] = []

    def before(operation: str, path: Path) -> None:
        if operation == "link" and path.parent.name == "blocks" and not done:
            done.append(1)
            again = open_site(churning.folder / "wh", BagEngine(), Files(), lambda: NOON).table("sales").arrivals
            compact(again, again.arrivals())

    mine = open_site(churning.folder / "wh", BagEngine(), Files(before), lambda: NOON).table("sales")
    assert mine.append([(999, "z", 1)]) == 17  # type: ignore[arg-type]
    assert done
    assert churning.bag(0, 17) == SignedBag.of([*churning.rows, (999, "z", 1)])
    churning.wh.gc()
    assert churning.wh.gc() == ()


def test_versions_that_are_given_up_while_a_run_is_planned_are_not_read(
    churning: Churning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a run has the lock of its query, nothing tells ``gc`` of another process that it is at work."""
    for _ in range(15):
        churning.step()
    q = churning.wh.add_query("q", sql=COUNT, schedule=Schedule.view())
    q.run()
    for _ in range(5):
        churning.step(come=3, go=2)
    done = list[int]()

    @contextmanager
    def later(files: Files, folder: Path) -> Iterator[None]:
        if not done:
            done.append(1)
            for _ in range(40):
                churning.step(come=3, go=2)
            open_site(churning.folder / "wh", BagEngine(), Files(), lambda: NOON).gc()
        with alone(files, folder):
            yield

    monkeypatch.setattr("tempura.warehouse.query.alone", later)
    # Planned at version 21, which is in the middle of what is stored together by then.
    report = q.run(methods="batch")
    assert done
    assert report.inputs == {"sales": 61}
    assert q.result() == SignedBag.of([(len(churning.rows),)])


@pytest.mark.parametrize("operation", ["link", "remove_tree"])
def test_two_processes_collect_at_once(churning: Churning, operation: str) -> None:
    q = churning.wh.add_query("q", sql=COUNT, schedule=Schedule.view())
    for _ in range(3):
        for _ in range(7):
            churning.step(come=3, go=2)
        q.run()
    done = list[int]()

    def other(upto: str, path: Path) -> None:
        if upto == operation and path.suffix not in (".lock", ".tmp") and not done:
            done.append(1)
            open_site(churning.folder / "wh", BagEngine(), Files(), lambda: NOON).gc(keep=1)

    open_site(churning.folder / "wh", BagEngine(), Files(other), lambda: NOON).gc(keep=1)
    assert done
    assert churning.wh.gc(keep=1) == ()
    assert q.verify()
    assert churning.bag(0, 22) == SignedBag.of(churning.rows)


@pytest.mark.slow
def test_killed_at_every_file_operation_while_storing_together_and_in_gc(tmp_path: Path) -> None:
    def prepare(folder: Path) -> Churning:
        made = Churning(folder)
        made.step(come=20, go=0)
        for _ in range(15):
            made.step()
        return made

    def act(folder: Path, files: Files) -> None:
        wh = open_site(folder / "wh", BagEngine(), files, lambda: NOON)
        wh.table("sales").append([(999, "z", 1)], id="last")  # type: ignore[arg-type]
        wh.gc()

    made = prepare(tmp_path / "made")
    shutil.copytree(tmp_path / "made", tmp_path / "calm")
    files, seen = counting()
    act(tmp_path / "calm", files)
    kept = shape(Churning(tmp_path / "calm").wh)
    assert any("blocks" in name for name in kept)
    for n in range(1, len(seen) + 1):
        shutil.copytree(tmp_path / "made", tmp_path / str(n))
        child = fork()
        if child == 0:
            try:
                act(tmp_path / str(n), at_operation(n, die))
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        left = Churning(tmp_path / str(n))
        assert left.bag(0, 16) == SignedBag.of(made.rows), seen[n - 1]
        act(tmp_path / str(n), Files())
        assert left.bag(0, 17) == SignedBag.of([*made.rows, (999, "z", 1)])
        assert left.wh.gc() == ()
        assert shape(left.wh) == kept, seen[n - 1]


def shape(wh: Warehouse) -> Counter[str]:
    paths = (path.relative_to(wh.path).parts for path in wh.path.rglob("*"))
    return Counter("/".join("ID" if len(p.split(".")[0]) == 32 else p for p in parts) for parts in paths)


class TestCheckpoints:
    """The ledger is read from few files, and is no less sure."""

    def test_a_thousand_manifests_are_read_from_few_files(self, tmp_path: Path, opened: list[str]) -> None:
        made = committed(tmp_path, STEPS)
        manifests.forget_manifests()
        opened.clear()
        assert [entry["i"] for entry in made.entries() if entry] == list(range(1, STEPS + 1))
        assert len(opened) <= 16 * 3
        superseded = made.superseded()
        for path in superseded:
            path.unlink()
        assert len(superseded) > 40
        manifests.forget_manifests()
        opened.clear()
        assert len(made.entries()) == STEPS
        assert len(opened) <= 16 * 3

    def test_an_altered_checkpoint_is_passed_over(self, tmp_path: Path) -> None:
        made = committed(tmp_path, 40)
        path = tmp_path / "ledger/1-16.json"
        assert b":[3]}" in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(b":[3]}", b":[9]}"))
        assert [entry["i"] for entry in made.entries() if entry] == list(range(1, 41))

    def test_a_checkpoint_of_format_3_is_read(self, tmp_path: Path) -> None:
        made = committed(tmp_path, 40)
        entries = made.entries()
        told = {"entries": json.dumps([{**entry, "is_of_it": True} for entry in entries[:16] if entry])}
        (tmp_path / "ledger/1-16.json").write_bytes(manifests.to_bytes(manifests.sealed(told)))
        read = made.entries()
        assert [entry["i"] for entry in read if entry] == list(range(1, 41))
        assert [bool(entry and entry.get("is_of_it")) for entry in read] == [True] * 16 + [False] * 24

    def test_versions_that_do_not_know_such_checkpoints_read_the_manifests(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = committed(tmp_path, 40)
        monkeypatch.setattr(manifests, "_FORMAT_OF_CHECKPOINTS", 3)
        manifests.forget_manifests()
        assert [entry["i"] for entry in made.entries() if entry] == list(range(1, 41))

    def test_a_lost_checkpoint_is_written_again(self, tmp_path: Path) -> None:
        made = committed(tmp_path, 20)
        (tmp_path / "ledger/1-16.json").unlink()
        assert len(made.entries()) == 20
        append(made, tmp_path, range(21, 34))
        assert (tmp_path / "ledger/1-16.json").exists()
        assert (tmp_path / "ledger/17-32.json").exists()

    def test_a_manifest_that_is_missing_is_told_though_a_checkpoint_has_it(self, tmp_path: Path) -> None:
        made = committed(tmp_path, 20)
        (tmp_path / "ledger/3.json").unlink()
        with pytest.raises(TempuraError, match="LEDGER_BROKEN"):
            made.entries()


class TestForgetting:
    """The first manifests of a ledger can be forgotten; the others keep their numbers."""

    def test_what_is_left_is_read_from_few_files(self, tmp_path: Path, opened: list[str]) -> None:
        made = committed(tmp_path, STEPS)
        forget(made, tmp_path, 512)
        assert _told(made) == [None] * 512 + list(range(513, STEPS + 1))
        removed = made.superseded()
        for path in removed:
            path.unlink()
        assert len([path for path in removed if path.stem.isdigit()]) == 512
        assert made.superseded() == ()
        manifests.forget_manifests()
        opened.clear()
        assert _told(made) == [None] * 512 + list(range(513, STEPS + 1))
        assert len(opened) <= 16 * 3
        append(made, tmp_path, range(STEPS + 1, STEPS + 301))
        forget(made, tmp_path, 768)
        for path in made.superseded():
            path.unlink()
        assert [path.name for path in (tmp_path / "ledger").glob("forgotten-*")] == ["forgotten-768.json"]
        assert made.count() == made.last() == STEPS + 300
        assert _told(made) == [None] * 768 + list(range(769, STEPS + 301))

    def test_what_would_be_removed_is_what_is(self, tmp_path: Path) -> None:
        made = committed(tmp_path, 700)
        said = made.superseded(256)
        assert len(said) > 256
        forget(made, tmp_path, 256)
        assert sorted(made.superseded()) == sorted(said)

    def test_one_that_is_missing_and_not_forgotten_is_told(self, tmp_path: Path) -> None:
        made = committed(tmp_path, 300)
        forget(made, tmp_path, 256)
        for path in made.superseded():
            path.unlink()
        (tmp_path / "ledger/280.json").unlink()
        with pytest.raises(TempuraError, match=r"lacks 280\.json\."):
            made.entries()

    def test_who_reads_while_they_go_reads_again(self, tmp_path: Path) -> None:
        made = committed(tmp_path, 300)
        for path in (tmp_path / "ledger").glob("*-*.json"):
            path.unlink()
        manifests.forget_manifests()
        looks = list[str]()

        class Going(Files):
            """Another process forgets manifests after they were listed."""

            def names(self, folder: Path) -> tuple[str, ...]:
                found = super().names(folder)
                if not looks:
                    looks.append("first")
                    forget(made, tmp_path, 256)
                    for path in made.superseded():
                        path.unlink()
                    manifests.forget_manifests()
                return found

        reader = ledger.Ledger(tmp_path / "ledger", Going())
        assert _told(reader) == [None] * 256 + list(range(257, 301))

    def test_killed_before_the_files_went(self, tmp_path: Path) -> None:
        made = committed(tmp_path, 300)
        forget(made, tmp_path, 256)
        for path in made.superseded()[:40]:
            path.unlink()
        assert _told(made) == [None] * 256 + list(range(257, 301))
        assert made.superseded()


def _told(made: ledger.Ledger) -> list[int | None]:
    return [entry["i"] if entry else None for entry in made.entries()]


def forget(made: ledger.Ledger, folder: Path, upto: int) -> None:
    with ledger.attempt(made.files, folder / "attempts") as work:
        made.forget(work, upto)


def committed(folder: Path, count: int) -> ledger.Ledger:
    made = ledger.Ledger(folder / "ledger", Files())
    append(made, folder, range(1, count + 1))
    return made


def append(made: ledger.Ledger, folder: Path, numbers: Sequence[int]) -> None:
    with ledger.attempt(made.files, folder / "attempts") as work:
        for n in numbers:
            made.append(work, n, {"i": n})


class TestPlane:
    """Which ranges make up a range, and what can be given up."""

    def test_the_ranges_of_a_count(self) -> None:
        assert list(spans(15)) == []
        assert list(spans(40)) == [(0, 16), (16, 32)]
        assert list(spans(256 + 17)) == [(0, 256), (256, 272)]

    @pytest.mark.parametrize("seed", range(20))
    def test_what_is_given_up_is_never_asked_for(self, seed: int) -> None:
        random = Random(seed)
        count = random.randrange(30, 400)
        starts = [(random.randrange(count), random.randrange(1, 60)) for _ in range(25)]
        blocks = frozenset([*spans(count), *((a, min(count, a + n)) for a, n in starts if a + n > a + 1)])
        versions = sorted({0, count, *(random.randrange(count) for _ in range(random.randrange(5)))})
        plane = Plane(frozenset(b for b in blocks if b[1] - b[0] > 1))
        left = plane.giving_up(versions)
        assert left.giving_up(versions) == left
        for i, after in enumerate(versions):
            for upto in versions[i:]:
                way = left.cover(after, upto)
                assert way is not None
                assert joined(way, after) == upto
                assert not any(map(left.is_given_up, way))
                assert len(way) >= len(plane.cover(after, upto) or ())
                assert all(b in left.blocks or b[1] - b[0] == 1 for b in way)


def test_a_version_without_deletions_stays_one(churning: Churning, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has planned to read no deletions finds none, whatever is stored together meanwhile."""
    monkeypatch.setattr("tempura.warehouse.tables.compact.FAN", 3)
    random, promised = Random(1), set[int]()
    for _ in range(60):
        churning.step(come=40, go=random.choice((0, 0, 120)) if len(churning.rows) > 120 else 0)
        last = churning.arrivals.version()
        promised |= {version for version in range(last + 1) if not any(churning.arrivals.deletions(version))}
        for version in promised:
            assert not churning.arrivals.source(0, version).rows.deleted
    assert churning.bag(0, last) == SignedBag.of(churning.rows)
    assert 10 < len(promised) < last


def test_a_table_that_has_lost_rows_may_be_declared_static_later(churning: Churning) -> None:
    churning.step()
    declared = churning.wh.path / "tempura.toml"
    declared.write_text(declared.read_text().replace("[tables.sales]\n", "[tables.sales]\nstatic = true\n"))
    wh = open_site(churning.wh.path, BagEngine(), Files(), lambda: NOON)
    wh.add_table("returns", schema="o_id INT, cost INT")
    query = wh.add_query("q", SUMMARY, schedule=Schedule.view())
    query.run()
    assert query.verify()


def joined(way: Sequence[tuple[int, int]], at: int) -> int:
    for after, upto in way:
        assert after == at
        at = upto
    return at


@dataclass
class Told:
    """A folder in which files of changes come beside plain ones. Plain ones whose rows all changes have left alone may go, and those of
    changes when they have arrived."""

    folder: Path
    random: Random
    plain: dict[str, list[Row]] = field(default_factory=dict)
    net: Counter[Row] = field(default_factory=Counter)
    written: int = 0

    def __post_init__(self) -> None:
        self.lake = self.folder / "lake"
        self.lake.mkdir()
        self.wh = open_site(self.folder / "wh", BagEngine(), Files(), lambda: NOON)
        self.table = self.wh.add_table("sales", path=self.lake, schema=SALES)
        self.wh.add_query("n", COUNT, schedule=Schedule.view())

    def rows(self) -> Counter[Row]:
        """The rows that are there."""
        found = self.net.copy()
        for rows in self.plain.values():
            found.update(rows)
        return +found

    def write(self, kind: str, ddl: str, rows: list[Row]) -> str:
        """The name of a new file."""
        self.written += 1
        name = f"{kind}{self.written}.parquet"
        write_rows(self.lake / name, parse(ddl), rows)
        return name

    def come(self) -> list[Row]:
        return [(self.written, "a", i) for i in range(2)]

    def change(self) -> None:
        new, there = self.come(), sorted(self.rows().elements())
        gone = self.random.sample(there, min(len(there), self.random.randrange(3)))
        self.write("changes", CHANGES, [(*row, "insert") for row in new] + [(*row, "delete") for row in gone])
        self.net.update(new)
        self.net.subtract(gone)

    def add(self) -> None:
        rows = self.come()
        self.plain[self.write("plain", SALES, rows)] = rows

    def lose(self) -> None:
        """Files go, and the table is taken as it is."""
        for file in self.random.sample(sorted(self.lake.glob("changes*")), 1):
            file.unlink()
        untouched = [name for name, rows in self.plain.items() if all(self.net[row] >= 0 for row in rows)]
        for name in untouched[:1]:
            (self.lake / name).unlink()
            del self.plain[name]
        self.table.refresh()


@pytest.mark.parametrize("seed", range(4))
def test_changes_of_a_folder_are_stored_together_whatever_becomes_of_its_files(tmp_path: Path, seed: int) -> None:
    """Plain files are read where they are; a refresh tells what each of them has brought."""
    told = Told(tmp_path, Random(seed))
    told.add()
    versions: list[Counter[Row]] = [Counter()]
    for step in range(90):
        told.add() if step in (18, 20 + seed, 84) else told.change()
        told.table.df()
        versions += [told.rows()] * (told.table.arrivals.version() - len(versions) + 1)
        if step in (22 + seed, 70, 72 + 2 * seed):
            told.lose()
            versions += [told.rows()] * (told.table.arrivals.version() - len(versions) + 1)
        if step % 17 == 16:
            told.wh.query("n").run()
            told.wh.gc(keep=1)
    arrivals = told.table.arrivals
    last = arrivals.version()
    for after in (0, *range(last - 5, last)):
        source = arrivals.source(after, last)
        expected = Counter(versions[last])
        expected.subtract(versions[after])
        assert bag(source, source.schema.names) == SignedBag([(row, n) for row, n in expected.items() if n]), after
    assert {(32, 48), (48, 64)} <= arrivals.blocks.now().blocks, "also before the last refresh"
    assert arrivals.files(0, last) < 0.8 * sum(len(a.inserted) + len(a.deleted) for a in arrivals.committed())
    told.wh.query("n").run()
    assert told.wh.query("n").verify()
    again = open_site(tmp_path / "wh", BagEngine(), Files(), lambda: NOON)
    assert again.query("n").verify()
