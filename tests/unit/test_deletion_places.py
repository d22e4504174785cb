"""Where deleted rows lie: noted when a deletion comes, kept when arrivals are stored together, and never believed where it is not known."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Aggregate, Consolidate, Filter, Rel, Scan, Union
from tempura.algebra.scalar import Call, Column, Literal, Ref
from tempura.cost.estimate import Estimator
from tempura.cost.model import SPARK
from tempura.cost.stats import TableFacts
from tempura.errors import TempuraError
from tempura.physical.operators import Read
from tempura.tvr.views import Delta, Snapshot
from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.batches.parquet import spanned
from tempura.warehouse.batches.places import place_columns
from tempura.warehouse.commits.files import Files
from tempura.warehouse.table import Table
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import register
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, BagEngine, Row, bag, parse, write_rows

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SALES = "o_id INT, cat STRING, price INT"


@pytest.fixture
def wh(tmp_path: Path) -> Warehouse:
    return open_site(tmp_path / "wh", BagEngine(), Files(), lambda: NOON)


@pytest.fixture
def sales(wh: Warehouse) -> Table:
    return wh.add_table("sales", schema=SALES)


def append(table: Table, rows: Sequence[Row]) -> None:
    table.append(rows)  # type: ignore[arg-type]


def delete(table: Table, rows: Sequence[Row], trust: bool = False) -> None:
    table.delete(rows, trust=trust)  # type: ignore[arg-type]


def read(table: Arrivals, version: int) -> tuple[bool, SignedBag]:
    """Whether a version is read by places, and its rows: by places and set off, which must be the same."""
    source = table.source(0, version)
    found = bag(source, source.schema.names)
    set_off = source.without_places()
    assert found == bag(set_off, source.schema.names)
    return source.rows.are_placed, found


class TestARowIsFound:
    def test_one_of_several_that_are_equal(self, sales: Table) -> None:
        append(sales, [(1, "a", 1), (1, "a", 1), (None, None, None), (2, "b", 2)])
        delete(sales, [(1, "a", 1), (None, None, None)])
        assert sales.arrivals.deletions(1) == (0, 0)
        assert sales.arrivals.deletions(2) == (0, 2)
        assert read(sales.arrivals, 2) == (True, SignedBag.of([(1, "a", 1), (2, "b", 2)]))
        delete(sales, [(1, "a", 1)])
        append(sales, [(1, "a", 1)])
        assert read(sales.arrivals, 4) == (True, SignedBag.of([(1, "a", 1), (2, "b", 2)]))

    def test_changes_are_told_as_before(self, sales: Table) -> None:
        append(sales, [(1, "a", 1), (2, "b", 2)])
        delete(sales, [(1, "a", 1)])
        source = sales.arrivals.source(1, 2)
        assert not source.rows.are_placed
        assert bag(source, source.schema.names) == -SignedBag.of([(1, "a", 1)])

    def test_that_came_with_its_deletion(self, sales: Table) -> None:
        sales.apply([(1, "a", 1, "insert"), (1, "a", 1, "insert"), (1, "a", 1, "delete")])  # type: ignore[arg-type]
        assert read(sales.arrivals, 1) == (True, SignedBag.of([(1, "a", 1)]))

    def test_that_came_in_the_same_transaction(self, wh: Warehouse, sales: Table) -> None:
        append(sales, [(0, "z", 0)])
        with wh.transaction() as t:
            t.table("sales").append([(1, "a", 1), (2, "b", 2)])
            t.table("sales").delete([(1, "a", 1)])
            t.table("sales").delete([(0, "z", 0)])
        assert read(sales.arrivals, 2) == (True, SignedBag.of([(2, "b", 2)]))

    def test_that_an_update_takes_the_place_of(self, wh: Warehouse) -> None:
        table = wh.add_table("keyed", schema="k INT, v STRING", keys=["k"])
        append(table, [(1, "a"), (2, "b")])
        table.apply([(1, "c", "update"), (3, "d", "insert")])  # type: ignore[arg-type]
        table.apply([(1, "e", "update")])  # type: ignore[arg-type]
        assert read(table.arrivals, 3) == (True, SignedBag.of([(1, "e"), (2, "b"), (3, "d")]))

    def test_all_of_them(self, sales: Table) -> None:
        append(sales, [(1, "a", 1), (2, "b", 2)])
        delete(sales, [(1, "a", 1), (2, "b", 2)])
        assert read(sales.arrivals, 2)[1] == SignedBag()
        append(sales, [])
        delete(sales, [])
        assert read(sales.arrivals, 4)[1] == SignedBag()

    def test_beside_columns_of_the_same_names(self, wh: Warehouse) -> None:
        assert place_columns(["_FILE", "a"]) == ("__file", "__row")
        table = wh.add_table("t", schema="_file STRING, _row BIGINT")
        append(table, [("x", 1), ("y", 2)])
        delete(table, [("x", 1)])
        assert table.arrivals.arrivals()[-1].places == ("__file", "__row")
        assert read(table.arrivals, 2) == (True, SignedBag.of([("y", 2)]))

    def test_though_columns_were_added_since(self, sales: Table) -> None:
        append(sales, [(1, "a", 1), (2, "b", 2)])
        delete(sales, [(1, "a", 1)])
        sales.arrivals.widen(parse("_row INT, more INT").fields)
        append(sales, [(3, "c", 3, 4, 5)])
        delete(sales, [(2, "b", 2, None, None)])
        assert read(sales.arrivals, 4) == (True, SignedBag.of([(3, "c", 3, 4, 5)]))


class TestARowIsNotFound:
    def test_it_is_refused_and_nothing_is_left(self, sales: Table) -> None:
        append(sales, [(1, "a", 1)])
        before = sorted(sales.arrivals.shelf.copies.rglob("*"))
        for rows in ([(1, "a", 1)] * 2, [(1, "a", 2)], [(None, "a", 1)]):
            with pytest.raises(TempuraError) as error:
                delete(sales, rows)
            assert error.value.code == "DELETE_OF_MISSING"
        assert sorted(sales.arrivals.shelf.copies.rglob("*")) == before
        delete(sales, [(1, "a", 1)])
        with pytest.raises(TempuraError) as error:
            delete(sales, [(1, "a", 1)])
        assert error.value.code == "DELETE_OF_MISSING", "a place is taken once"


class TestNothingIsKnown:
    def test_of_deletions_that_were_not_looked_for(self, sales: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nor can places be told that come after, until rows are stored anew without those deleted."""
        monkeypatch.setattr("tempura.warehouse.tables.compact.FAN", 1)
        append(sales, [(key, "a", 1) for key in range(8)])
        delete(sales, [(1, "a", 1)], trust=True)
        delete(sales, [(2, "a", 1)])
        assert sales.arrivals.deletions(3) == (2, 0)
        assert not read(sales.arrivals, 3)[0]
        delete(sales, [(key, "a", 1) for key in range(3, 8)])
        append(sales, [(9, "a", 1)])
        delete(sales, [(9, "a", 1)])
        assert sales.arrivals.deletions(6) == (0, 1)
        assert read(sales.arrivals, 6) == (True, SignedBag.of([(0, "a", 1)]))

    def test_of_more_than_can_be_sent_to_every_task(self, sales: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempura.warehouse.batches.content.MOST_PLACES", 2)
        append(sales, [(key, "a", 1) for key in range(8)])
        delete(sales, [(1, "a", 1), (2, "a", 1)])
        assert read(sales.arrivals, 2)[0]
        delete(sales, [(3, "a", 1)])
        assert sales.arrivals.deletions(3) == (3, 0)
        assert not read(sales.arrivals, 3)[0]
        assert read(sales.arrivals, 2)[0]

    def test_of_files_that_others_wrote(self, wh: Warehouse, tmp_path: Path) -> None:
        """They may be written again under the same name, in another order."""
        folder = tmp_path / "in"
        table = wh.add_table("files", path=folder, schema=SALES)
        write_rows(folder / "a.parquet", parse(SALES), [(1, "a", 1), (2, "b", 2)])
        register(table.arrivals)
        write_rows(folder / "b.parquet", parse(f"{SALES}, _change STRING"), [(1, "a", 1, "delete")])
        register(table.arrivals)
        assert table.arrivals.deletions(2) == (1, 0)
        assert read(table.arrivals, 2) == (False, SignedBag.of([(2, "b", 2)]))

    def test_of_arrivals_before_places_were_noted(self, sales: Table) -> None:
        append(sales, [(1, "a", 1), (2, "b", 2)])
        delete(sales, [(1, "a", 1)])
        arrival = sales.arrivals.arrivals()[-1]
        old = {name: value for name, value in arrival.to_json().items() if name not in ("places", "hit")}
        assert Arrival.from_json(old) == replace(arrival, places=(), hit=())
        assert Arrival.from_json(arrival.to_json()) == arrival

    def test_where_one_of_the_files_is_not_read(self, sales: Table) -> None:
        append(sales, [(1, "a", 1)])
        delete(sales, [(1, "a", 1)])
        first, second = sales.arrivals.arrivals()
        wanted = sales.arrivals.wanted((first, second), 0, 2)
        assert wanted.is_placed
        assert not replace(wanted, arrivals=(second,)).is_placed
        assert not replace(wanted, arrivals=(first, first, second)).is_placed, "two files of one name"
        assert not replace(wanted, base=first).is_placed

    def test_of_columns_whose_values_are_not_told_apart_by_equality(
        self, wh: Warehouse, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(BagEngine, "can_place", lambda *_: False)
        table = wh.add_table("t", schema=SALES)
        append(table, [(1, "a", 1)])
        delete(table, [(1, "a", 1)])
        assert not table.arrivals.arrivals()[-1].places


@pytest.mark.parametrize("seed", range(12))
def test_at_random(wh: Warehouse, sales: Table, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored together, however often, keeps the rows of every version and what is known of places, as it was when it was last
    asked; and what has changed between two versions."""
    monkeypatch.setattr("tempura.warehouse.tables.compact.FAN", 3)
    monkeypatch.setattr("tempura.warehouse.commits.spans.FAN", 3)
    random, there = Random(seed), Counter[Row]()
    trusting = 0.1 if seed % 3 == 0 else 0.0
    versions, placed = [SignedBag()], dict[int, bool]()
    for _ in range(45):
        come = [(random.randrange(5), random.choice("ab"), 0) for _ in range(random.randrange(1, 5))]
        gone = random.sample(sorted(there.elements()), min(there.total(), random.choice((0, 1, 2, 6))))
        random.shuffle(come)
        changes = [(*row, "insert") for row in come] + [(*row, "delete") for row in gone]
        sales.apply(changes, trust=random.random() < trusting)  # type: ignore[arg-type]
        there = there + Counter(come) - Counter(gone)
        versions.append(SignedBag.of(list(there.elements())))
        for version in random.sample(range(1, len(versions)), min(4, len(versions) - 1)):
            by_places, rows = read(sales.arrivals, version)
            assert rows == versions[version]
            set_off, left_out = sales.arrivals.deletions(version)
            assert by_places == (left_out > 0)
            assert not (placed.get(version) and set_off), "a plan may have gone by it"
            placed[version] = set_off == 0
            after = random.randrange(version + 1)
            source = sales.arrivals.source(after, version) if after else None
            assert source is None or bag(source, source.schema.names) == versions[version] - versions[after]
    assert len(sales.arrivals.blocks.now().blocks) > 5
    assert trusting or all(placed.values())


def test_verification_does_not_believe_places(wh: Warehouse, sales: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    append(sales, [(key, "a", key) for key in range(40)])
    query = wh.add_query("q", COUNT, schedule=Schedule.view())
    real: Callable[..., list[Row]] = BagEngine.placed

    def twice(*given: Any) -> list[Row]:
        """The same place for two rows: too many rows are left."""
        found = real(*given)
        return [(*row[:-2], *found[0][-2:]) for row in found]

    monkeypatch.setattr(BagEngine, "placed", twice)
    delete(sales, [(1, "a", 1), (2, "a", 2)])
    query.run()
    assert not query.verify()


class TestFacts:
    FACTS = TableFacts((50, 80, 90, 95), (0, 10, 12, 15), 2, read_deleted=(0, 10), placed=(0, 10), notes_places=True)

    def test_those_to_come_are_expected_to_be_placed_as_well(self) -> None:
        assert [self.FACTS.deletions_read(t) for t in range(4)] == [0, 10, 12, 15]
        assert [self.FACTS.places_read(t) for t in range(4)] == [0, 10, 12, 15]
        left = self.FACTS.at((0, 1, 3))
        assert [left.places_read(t) for t in range(3)] == [0, 10, 15]

    def test_or_to_be_set_off(self) -> None:
        facts = replace(self.FACTS, placed=(0, 0), notes_places=False)
        assert [facts.deletions_read(t) for t in range(4)] == [0, 10, 12, 15]
        assert [facts.places_read(t) for t in range(4)] == [0, 0, 0, 0]

    def test_of_rows_that_are_stored_without_those_deleted(self) -> None:
        facts = replace(self.FACTS, read_deleted=(0, 0), placed=(0, 0))
        assert [facts.places_read(t) for t in range(4)] == [0, 0, 2, 5]


class TestPrices:
    """What it takes to find the rows that are left of a table."""

    COLUMNS = (Column("t.a", "a", "int"), Column("t.b", "b", "int"))
    SCAN = Scan("t", ("a", "b"), COLUMNS)

    def price(self, facts: TableFacts, rel: Rel) -> int:
        return SPARK.operator(rel, Estimator({"t": facts}))

    @pytest.mark.parametrize(
        "over",
        [
            lambda rel: rel,
            lambda rel: Filter(rel, Call("GreaterThan", (Ref(rel.columns[0]), Literal(3, "int")), "boolean")),
        ],
    )
    def test_by_places_they_are_looked_up_once(self, over: Callable[[Rel], Rel]) -> None:
        facts = TableFacts((9_000_000,), (20_000,), 1, read_deleted=(20_000,), placed=(20_000,))
        taken = Consolidate(over(Read(self.SCAN, Snapshot(0), signed=True)))
        by_places = self.price(facts, taken)
        assert 0 < by_places < self.price(replace(facts, placed=(0,)), taken)
        assert by_places < self.price(replace(facts, placed=()), taken)

    def test_spark_asked_as_written_looks_them_up_as_well(self) -> None:
        facts = TableFacts((9_000_000,), (20_000,), 1, read_deleted=(20_000,), placed=(20_000,))
        read = Read(self.SCAN, Snapshot(0))
        assert self.price(facts, read) > self.price(replace(facts, deleted=(0,), read_deleted=(), placed=()), read)

    def test_what_was_joined_has_no_places(self) -> None:
        facts = TableFacts((9_000_000,), (20_000,), 1, read_deleted=(20_000,), placed=(20_000,))
        read = Read(self.SCAN, Snapshot(0), signed=True)
        assert Estimator({"t": facts}).left_out(Union((read, read))) == 40_000
        assert Estimator({"t": facts}).left_out(Read(self.SCAN, Delta(0, 0), signed=True)) is None
        assert Estimator({"t": facts}).left_out(Aggregate(read, (), ())) is None


class TestWhatNarrows:
    """Of which columns it pays to ask for the values that come: those by which a part of some file is left out."""

    def file(self, folder: Path, *groups: list[tuple[Any, ...]]) -> str:
        types = pa.schema([("a", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(9, 2)), ("t", pa.date32())])
        path = folder / "x.parquet"
        with pq.ParquetWriter(path, types) as writer:
            for rows in groups:
                writer.write_table(pa.table([list(column) for column in zip(*rows, strict=True)], schema=types))
        return str(path)

    def row(self, n: int) -> tuple[Any, ...]:
        return n, f"{n:02}", Decimal(n), date(2026, 1, 1 + n)

    @pytest.mark.parametrize(
        ("low", "high", "idle"),
        [(0, 9, "asdt"), (4, 5, "asdt"), (0, 3, ""), (6, 7, ""), (20, 21, "")],
    )
    def test_by_what_row_groups_say(self, tmp_path: Path, low: int, high: int, idle: str) -> None:
        path = self.file(tmp_path, [self.row(n) for n in (0, 4)], [self.row(n) for n in (5, 9)])
        bounds = dict(zip("asdt", zip(self.row(low), self.row(high), strict=True), strict=True))
        assert spanned([path], bounds) == set(idle)
        assert spanned([path], {"other": (1, 2)}) == set(), "a column that no file has may be one of paths"

    def test_of_what_says_nothing_all_may_be_there(self, tmp_path: Path) -> None:
        path = self.file(tmp_path, [(None, None, None, None)], [self.row(1)])
        assert spanned([path], {"a": (0, 9), "s": ("00", "09")}) == {"a", "s"}
        assert spanned([path], {"a": (5, 9), "s": ("05", "09")}) == set()
        assert spanned([], {"a": (0, 9)}) == set()
