"""Of how many files rows are read: each is opened, and that has a price, which small arrivals add up."""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tempura.algebra.rel import Scan
from tempura.algebra.scalar import Column
from tempura.cost.estimate import Estimator
from tempura.cost.model import SPARK
from tempura.cost.stats import ColumnStats, Files, TableFacts
from tempura.physical.operators import Load, Read
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.tvr.views import Delta, Snapshot
from tempura.warehouse.commits.files import Files as FilesOfDisk
from tempura.warehouse.tables.facts import table_facts
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.take import register
from tempura.warehouse.times.forecast import Forecast
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, BagEngine, parse, write_rows
from tests.unit.test_churn import inner

SALES = "o_id INT, cat STRING, price INT"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTHING = Forecast("sales", (), "")
FACTS = TableFacts((1000, 1600, 1700, 2000), (0,) * 4, 2, files=Files((4, 10), (0, 6), 100))


class TestFacts:
    def test_as_many_as_there_are_and_one_more_for_each_hundred_rows_to_come(self) -> None:
        assert [FACTS.files_of_snapshot(t) for t in range(4)] == [4, 10, 11, 14]
        assert [FACTS.files_of_delta(t, u) for t, u in ((0, 1), (1, 2), (2, 3), (0, 3), (1, 3))] == [6, 1, 3, 10, 4]

    def test_at_some_of_the_points(self) -> None:
        later = FACTS.at((0, 1, 3))
        assert [later.files_of_snapshot(t) for t in range(3)] == [4, 10, 14]
        assert [later.files_of_delta(t, u) for t, u in ((0, 1), (1, 2), (0, 2))] == [6, 4, 10]
        first = FACTS.at((1, 2))
        assert (first.files_of_snapshot(0), first.files_of_delta(0, 1)) == (10, 1)

    def test_of_three_known_points_the_second_may_be_left_out(self) -> None:
        facts = TableFacts((1, 2, 3), (0,) * 3, 3, files=Files((1, 3, 4), (0, 2, 1))).at((0, 2))
        assert facts.files == Files((1, 4), (0, 3))

    def test_one_where_nothing_is_known_and_never_less(self) -> None:
        unknown = replace(FACTS, files=None)
        assert (unknown.files_of_snapshot(3), unknown.files_of_delta(0, 3)) == (1, 1)
        assert unknown.at((0, 1)).files is None
        empty = TableFacts((0, 0), (0, 0), 2, files=Files((0, 0), (0, 0)))
        assert (empty.files_of_snapshot(1), empty.files_of_delta(0, 1)) == (1, 1)


class TestPrices:
    READ = Scan("sales", ("o_id",), (Column("s.o", "o_id", "int"),))

    def price(self, at: Snapshot | Delta, files: Files | None, fixed: float = 1.0) -> int:
        return SPARK.scaled(fixed).operator(Read(self.READ, at), Estimator({"sales": replace(FACTS, files=files)}))

    @pytest.mark.parametrize(("at", "files"), [(Snapshot(0), 4), (Snapshot(1), 10), (Delta(0, 1), 6)])
    def test_each_file_but_the_first_costs_a_file_more(self, at: Snapshot | Delta, files: int) -> None:
        assert self.price(at, FACTS.files) - self.price(at, None) == (files - 1) * SPARK.file

    def test_tasks_open_them_so_it_is_no_price_of_the_drivers(self) -> None:
        more = self.price(Snapshot(1), FACTS.files, 3.0) - self.price(Snapshot(1), None, 3.0)
        assert more == 9 * SPARK.file


@pytest.fixture
def wh(tmp_path: Path) -> Warehouse:
    return open_site(tmp_path / "wh", BagEngine(), FilesOfDisk(), lambda: NOON)


class TestTables:
    def of(self, wh: Warehouse, pinned: Sequence[int]) -> Files | None:
        return table_facts(wh.table("sales").arrivals, pinned, NOTHING).files

    def test_what_was_stored_together_is_one(self, wh: Warehouse) -> None:
        table = wh.add_table("sales", schema=SALES)
        for n in range(20):
            table.append([(n, "a", n), (n, "b", n)])  # type: ignore[arg-type]
        assert self.of(wh, (4, 20)) == Files((4, 5), (0, 16), 2)
        assert self.of(wh, (16, 20)) == Files((1, 5), (0, 4), 2)
        assert self.of(wh, (20, 20)) == Files((5, 5), (0, 0), 2)

    def test_as_many_as_are_read(self, wh: Warehouse) -> None:
        table = wh.add_table("sales", schema=SALES)
        for n in range(40):
            table.append([(n, "a", n)])  # type: ignore[arg-type]
            if n % 3 == 2:
                table.delete([(n - 1, "a", n - 1)])  # type: ignore[arg-type]
        last = table.arrivals.version()
        for after, upto in ((0, last), (0, 7), (5, last), (30, 40)):
            rows = table.arrivals.source(after, upto).rows
            assert table.arrivals.files(after, upto) == len(rows.inserted) + len(rows.deleted)

    def test_a_folder_and_what_waits_in_it(self, wh: Warehouse, tmp_path: Path) -> None:
        (tmp_path / "lake").mkdir()
        table = wh.add_table("sales", schema=SALES, path=tmp_path / "lake")
        for n in range(5):
            self.put(tmp_path / "lake" / f"{n}.parquet", n)
        prospect = Prospect(table.arrivals)
        assert (prospect.version, prospect.files(0, 1)) == (1, 5)
        register(table.arrivals)
        for n in (6, 7):
            self.put(tmp_path / "lake" / f"{n}.parquet", n)
        prospect = Prospect(table.arrivals)
        assert [prospect.files(*versions) for versions in ((0, 1), (0, 2), (1, 2))] == [5, 7, 2]
        assert table_facts(prospect, (1, 2), NOTHING).files == Files((5, 7), (0, 2), 3)

    @pytest.mark.parametrize("files", [2, 200])
    def test_it_is_said_where_files_are_so_many_that_to_open_them_is_much_of_the_cost(
        self, wh: Warehouse, tmp_path: Path, files: int
    ) -> None:
        (tmp_path / "lake").mkdir()
        wh.add_table("sales", schema=SALES, path=tmp_path / "lake")
        for n in range(files):
            self.put(tmp_path / "lake" / f"{n}.parquet", n)
        explained = wh.add_query("q", COUNT, schedule=Schedule.view()).plan().explain()
        assert ("sales is read from 200 files, which take 0.6 s of that to open" in explained) == (files == 200)
        assert ("to open" in explained) == (files == 200)

    def put(self, path: Path, n: int) -> None:
        write_rows(path, parse(SALES), [(n, "a", i) for i in range(3)])
        os.utime(path, (NOON.timestamp(),) * 2)


@pytest.mark.parametrize(("files", "saves"), [(1, False), (200, True)])
def test_a_state_is_brought_up_to_date_when_what_came_since_lies_in_many_files(files: int, saves: bool) -> None:
    """The same rows; from the new state the next refresh reads one file."""
    counts = (10_000_000, 10_005_000, 10_005_500)
    columns = {"o_id": ColumnStats(10_000_000), "cat": ColumnStats(20)}
    lies = Files((1, 1 + files), (0, files), 500)
    sales = TableFacts(counts, (0,) * 3, 2, append_only=True, columns=columns, files=lies)
    returns = TableFacts((2_500_000,) * 3, (0,) * 3, 2, static=True, columns={"o_id": ColumnStats(2_500_000)})
    first = {"sales": _first(sales), "returns": _first(returns)}
    (built, _) = make_plan(Problem(inner(), Schedule.view().points_from(0, done=False), first)).steps
    states = frozenset(replace(save.key, time=0) for save in built.saves)
    points = Schedule.view().points_from(7, done=True)
    (step, _) = make_plan(Problem(inner(), points, {"sales": sales, "returns": returns}, states)).steps
    assert any(isinstance(rel, Load) for rel in step.operators)
    assert bool(step.saves) == saves


def _first(facts: TableFacts) -> TableFacts:
    return replace(facts, inserted=facts.inserted[:2], deleted=(0, 0), known=1, files=None)
