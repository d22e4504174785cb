"""Sketches of columns: that merging is the sketch of the union, that a part of the rows tells the rest, and what becomes of damage."""

import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempura.cost.stats import spelled
from tempura.warehouse.batches import sample
from tempura.warehouse.batches.arrivals import ColumnSummary
from tempura.warehouse.batches.sample import several, sketches_of, spread
from tempura.warehouse.batches.sketch import COLUMN_BYTES, ColumnSketch, as_one_text, sketched
from tempura.warehouse.commits.manifests import Entry, sealed, to_bytes
from tempura.warehouse.tables import sketches
from tempura.warehouse.tables.facts import table_facts
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.sketches import VERSION, brought_up, known_sketches
from tempura.warehouse.tables.take import register
from tempura.warehouse.times.forecast import Forecast
from tests.unit.test_refresh import World

ERROR = 3 * 0.044
"""Three standard errors of a sketch that keeps 512 hashes."""


def of(values: Sequence[object], rows: int | None = None, pieces: int = 1) -> ColumnSketch:
    size = -(-len(values) // pieces)
    parts = [pa.array([*values[i * size : (i + 1) * size]]) for i in range(pieces)]
    found = sketched(parts, len(values) if rows is None else rows)
    assert found is not None
    return found


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 3_000), min_size=1, max_size=900), min_size=1, max_size=5))
def test_merged_sketches_count_the_union(arrivals: list[list[int]]) -> None:
    """A sum of the parts' counts, or the largest of them, would be refuted by parts that overlap in part."""
    merged = of(arrivals[0])
    for values in arrivals[1:]:
        merged += of(values)
    true = len(set().union(*map(set, arrivals)))
    assert merged.values() == pytest.approx(true, rel=ERROR, abs=1)
    assert merged.rows == merged.covered == sum(map(len, arrivals))


def test_a_thousand_arrivals_do_not_drift() -> None:
    """Each has a tenth of the values; what is added up from one to the next stays within what the sketch of all says."""
    random, merged = Random(7), of([*range(500)])
    for _ in range(300):
        merged += of([random.randrange(5_000) for _ in range(500)])
    assert merged.values() == pytest.approx(5_000, rel=ERROR)


@pytest.mark.parametrize(
    ("name", "value", "true"),
    [
        ("a key", lambda n: n, 400_000),
        ("side by side", lambda n: n // 4, 100_000),
        ("many", lambda n: Random(n).randrange(50_000), 50_000),
        ("few", lambda n: n % 7, 7),
        ("skewed", lambda n: 0 if n % 2 else Random(n).randrange(20_000), 20_000),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_pieces_tell_how_many_values_all_rows_have(name: str, value: object, true: int) -> None:
    rows, size = 400_000, 1_250
    at = [i * rows // 8 for i in range(8)]
    pieces = [pa.array([value(n) for n in range(start, start + size)]) for start in at]  # type: ignore[operator]
    found = sketched(pieces, rows)
    assert found is not None
    assert found.values() == pytest.approx(true, rel=0.4)


def test_rows_in_order_span_a_part_of_the_range() -> None:
    """The first rows of a calendar have 28 of its 200 years."""
    found = of([1900 + n // 365 for n in range(10_000)], rows=73_000, pieces=8)
    assert found.values(1900, 2099) == pytest.approx(200, rel=0.05)
    assert found.values() < 100, "without the range nothing says that there are more"


@pytest.mark.parametrize("of_a_key", [1, 4])
def test_pieces_of_arrivals_in_the_order_of_a_key_lie_at_the_same_places(of_a_key: int) -> None:
    """Rows came in ten arrivals by chance, each in the order of the key: what recurs at a place says nothing of the others."""
    keys, random = 400_000 // of_a_key, Random(5)
    arrivals: list[list[int]] = [[] for _ in range(10)]
    for n in range(400_000):
        random.choice(arrivals).append(n // of_a_key)
    sketches = []
    for rows in arrivals:
        at = [i * len(rows) // 8 for i in range(8)]
        found = sketched([pa.array(rows[start : start + 250]) for start in at], len(rows))
        assert found is not None
        sketches.append(found)
    merged = reduce(add, sketches)
    assert merged.values(0, keys - 1) == pytest.approx(keys, rel=0.5)
    if of_a_key > 1:
        assert merged.values() < keys / 5, "without the range the values seen again let it look as if there were few"


def test_spans_of_a_column_are_few_and_apart() -> None:
    random, merged = Random(8), of([0, 1])
    for _ in range(300):
        low = random.randrange(10**6)
        merged += of([low, low + random.randrange(1, 500)])
    spans = merged.spans
    assert len(spans) == 64
    assert all(low < high for low, high in spans)
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert ColumnSketch.from_json(json.loads(json.dumps(merged.to_json()))).spans == spans


def test_rows_that_follow_on_each_other_are_told_from_rows_in_one_piece() -> None:
    """All rows of a small table are one piece, in which each value has several."""
    ordered, mixed = [n // 10 for n in range(1_000)], [n % 100 for n in range(1_000)]
    assert (of(ordered) + of(ordered)).run == pytest.approx(10)
    assert of(mixed).run == 1
    assert of(ordered).adjacent == of(mixed).adjacent == 10
    assert ColumnSketch.from_json(json.loads(json.dumps(of(ordered).to_json()))).run == 10


@pytest.mark.parametrize("each", [300, 2_000, 30_000])
@pytest.mark.parametrize("arrivals", [1, 3])
def test_there_are_no_more_values_than_runs_of_equal_ones(each: int, arrivals: int) -> None:
    """A piece has parts of two runs at its ends, and each was taken for a value seen once: there seemed to be more than twice as many."""
    rows, size, sketches = 400_000, 1_250, []
    for arrival in range(arrivals):
        at = [i * rows // 32 for i in range(32)]
        pieces = [pa.array([f"{arrival} {n // each}" for n in range(start, start + size)]) for start in at]
        found = sketched(pieces, rows)
        assert found is not None
        sketches.append(ColumnSketch.from_json(json.loads(json.dumps(found.to_json()))))
    merged, true = reduce(add, sketches), arrivals * -(-rows // each)
    assert true / 2 <= merged.values() <= 1.5 * true
    assert merged.pieces == 32 * arrivals


def test_bytes_are_values_and_documents_are_not() -> None:
    keys = pa.array([bytes([200 + n % 4, n % 2]) if n % 5 else None for n in range(1_000)])
    for values in (keys, keys.cast(pa.large_binary()), keys.cast(pa.binary(2)), keys.dictionary_encode()):
        found = sketched([values], 1_000)
        assert found is not None
        assert found.values() == 4
        assert set(found.shares()) == {"'c800'", "'c901'", "'ca00'", "'cb01'"}
    documents = pa.array([bytes([n % 4]) * 1_000 for n in range(100)])
    assert sketched([documents], 100) is None
    assert as_one_text([keys, keys]).drop_null().unique().to_pylist()[0] == "c901\x1fc901"
    assert as_one_text([keys[:100], documents]).type == pa.binary()


def weekly(weeks: range, rows: int = 100_000) -> ColumnSketch:
    """What is seen of a count that is taken each week, in order."""
    days = [2_450_815 + 7 * (weeks.start + n * len(weeks) // rows) for n in range(rows)]
    found = sketched([pa.array(days[i : i + 1_000]) for i in range(0, rows, rows // 20)], rows)
    assert found is not None
    return found


def test_values_that_are_some_way_apart_are_no_more_than_fit() -> None:
    """Days seven apart: pieces that have one or two of them each say little else of how many there are."""
    first, second = weekly(range(130)), weekly(range(130, 261))
    both = ColumnSketch.from_json(json.loads(json.dumps((first + second).to_json())))
    assert both.grid == (2_450_815, 7)
    extremes = ColumnSummary(low=2_450_815.0, high=2_450_815.0 + 7 * 260)
    assert extremes.stats(200_000, 1.0, both).distinct == pytest.approx(261, rel=0.1)
    assert extremes.stats(200_000, 1.0, both).distinct <= 261
    shifted = both + of([2_450_816 + 7 * n for n in range(30)])
    assert shifted.grid == (2_450_815, 1), "a day of another weekday is on no such grid"


@pytest.mark.parametrize("values", [["a", "b"] * 20, [0.5 * n for n in range(40)], [None] * 30, [True, False] * 20])
def test_only_integers_lie_on_a_grid(values: list[object]) -> None:
    found = sketched([pa.array(values, pa.int32()) if values[0] is None else pa.array(values)], len(values))
    assert found is not None
    assert found.step is None
    assert (found + of([*range(0, 300, 10)])).grid == (0, 10)


def test_few_values_are_on_a_grid_by_chance() -> None:
    assert of([3, 9, 15]).step is None
    assert of([*range(3, 300, 6)]).step == 6


def test_frequent_values_have_their_shares() -> None:
    many = ["often"] * 600 + ["seldom"] * 100 + [f"x{n}" for n in range(300)]
    Random(1).shuffle(many)
    found = of([*many, None, None], rows=100_200, pieces=8).shares()
    assert found["'often'"] == pytest.approx(0.6, rel=0.01)
    assert found["'seldom'"] == pytest.approx(0.1, rel=0.01)
    assert len(found) == 2, "what was seen once in a part of the rows is not said to be frequent"
    both = of(["a"] * 30 + ["b"] * 10) + of(["b"] * 60)
    assert both.shares() == {"'b'": 0.7, "'a'": 0.3}


def test_of_values_that_are_equally_frequent_none_is_after_any_number_of_arrivals() -> None:
    random, merged = Random(3), of([f"{n}" for n in range(400)])
    for _ in range(100):
        merged += of([random.choice(("often", f"{random.randrange(2_000)}")) for _ in range(400)])
    assert set(merged.shares()) == {"'often'"}
    assert merged.shares()["'often'"] == pytest.approx(0.5, rel=0.1)


def test_a_value_that_fills_a_piece_of_rows_in_order_is_not_frequent() -> None:
    assert of([n // 2_000 for n in range(10_000)], rows=1_000_000, pieces=8).shares() == {}


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([1, 2, 2, None], pa.int8()),
        ([1, 2, 2, None], pa.uint64()),
        ([0.5, 1.5, 1.5], pa.float32()),
        ([Decimal("1.25"), Decimal("2.50")], pa.decimal128(7, 2)),
        ([date(2026, 3, 1), date(1583, 1, 1)], pa.date32()),
        ([datetime(2026, 3, 1, 12), datetime(1969, 3, 1)], pa.timestamp("ms")),
        (["a", "", "a"], pa.large_string()),
        ([True, False, True], pa.bool_()),
    ],
    ids=str,
)
def test_values_are_spelled_as_constants_of_a_query_are(values: list[object], type: pa.DataType) -> None:
    found = sketched([pa.array(values, type)], len(values))
    assert found is not None
    present = [value for value in values if value is not None]
    assert found.values() == len(set(present))
    assert set(found.shares()) <= {spelled(value) for value in present}
    assert spelled(present[0]) in found.shares()


def test_nested_values_have_no_sketch() -> None:
    assert sketched([pa.array([[1], [2]])], 2) is None
    assert sketched([], 0) is None


def test_no_values_at_all() -> None:
    found = of([None, None])
    assert (found.values(), found.shares()) == (0, {})
    assert (found + of([1, 2])).values() == 2


def test_stored_bytes_are_bounded() -> None:
    """Whatever has arrived: of long texts none is kept, and of hashes so many."""
    texts = [f"{n:060}" for n in range(48)] * 20
    merged = of(texts)
    for start in range(0, 40_000, 4_000):
        merged += of([f"{n % 7_000:064}" for n in range(start, start + 5_000)])
    stored = json.dumps(merged.to_json())
    assert len(stored) < COLUMN_BYTES
    again = ColumnSketch.from_json(json.loads(stored))
    assert (again.shares(), again.rows, again.values()) == (merged.shares(), merged.rows, merged.values())
    assert (again + merged).values() == pytest.approx(merged.values(), rel=0.01)
    assert of(["y" * 65] * 50).shares() == {}


def test_pieces_come_from_all_over_the_files(tmp_path: Path) -> None:
    for n in range(20):
        whole = pa.table({"n": pa.array(range(n * 4_000, (n + 1) * 4_000)), "later": pa.nulls(4_000, pa.string())})
        pq.write_table(whole if n else whole.select(["n"]), tmp_path / f"{n:02}.parquet", row_group_size=1_000)
    files = sorted(tmp_path.iterdir())
    found = sketches_of(files, 80_000, ("n", "later", "path"))
    assert set(found) == {"n", "later"}, "what is in no file cannot be looked at"
    assert found["n"].covered == 8 * 1_000
    assert (found["n"].spans[0][0], found["n"].spans[-1][1]) == (0, 17 * 4_000 + 1_000)
    assert found["n"].values() == pytest.approx(80_000)
    assert found["later"].values() == 0
    assert spread(range(5), 8) == [0, 1, 2, 3, 4]
    assert spread(range(20), 4) == [0, 5, 10, 15]


def test_several_columns_have_values_together(tmp_path: Path) -> None:
    """400 of the 2,000 pairs there could be; NULL with anything is none of them."""
    rows = [(n % 40, None if n % 7 == 0 else f"{n % 400 // 8}, {n % 3}") for n in range(7_000)]
    columns = {
        "a": pa.array([a for a, _ in rows]),
        "b, c": pa.array([b for _, b in rows]),
        "d": pa.array([[1]] * 7_000),
    }
    pq.write_table(pa.table({**columns, "e": columns["b, c"].dictionary_encode()}), tmp_path / "a.parquet")
    found = sketches_of([tmp_path / "a.parquet"], 7_000, ("a", "b, c", several("ea"), several("da"), "a, no such"))
    assert set(found) == {"a", "b, c", "a, e"}, (
        "a column may have a comma in its name; what cannot be told apart has none"
    )
    true = len({(a, b) for a, b in rows if b is not None})
    assert found["a, e"].values() == pytest.approx(true, rel=ERROR)
    assert found["b, c"].values() == pytest.approx(len({b for _, b in rows if b}), rel=ERROR)


# --- what a warehouse keeps of them -------------------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def stored(world: World, table: str = "sales") -> Path:
    return world.wh.path / "tables" / table / "sketches.json"


def count(world: World, column: str = "cat") -> float:
    return known_sketches(world.wh.table("sales").arrivals)[column].values()


def test_columns_that_a_query_uses_are_sketched_when_it_is_run(world: World) -> None:
    query = world.begun()
    assert set(known_sketches(world.wh.table("returns").arrivals)) == {"o_id", "cost"}
    before, size = count(world, "o_id"), stored(world).stat().st_size
    world.put("c.parquet", [(n, "c9", n) for n in range(1_000, 1_500)], age=50)
    query.run()
    assert count(world, "o_id") == before + 500
    assert count(world) == 4
    assert stored(world).stat().st_size < size + COLUMN_BYTES
    assert known_sketches(world.wh.table("sales").arrivals)["o_id"].is_whole


def test_a_plan_that_only_looks_has_what_a_run_would_have_and_stores_nothing(world: World) -> None:
    query = world.begun()
    before = stored(world).read_bytes()
    world.put("c.parquet", [(n, "c9", n) for n in range(1_000, 1_500)], age=50)
    seen = known_sketches(Prospect(world.wh.table("sales").arrivals), ("o_id", "cat"))
    assert stored(world).read_bytes() == before
    query.run()
    run = known_sketches(world.wh.table("sales").arrivals)
    assert {name: seen[name].values() for name in ("o_id", "cat")} == {
        name: run[name].values() for name in ("o_id", "cat")
    }
    assert seen["cat"].shares() == run["cat"].shares()


def test_a_column_that_no_query_uses_has_none(world: World) -> None:
    world.put("a.parquet", [(1, "a", 1)])
    world.query()
    sales = world.wh.table("sales").arrivals
    assert set(brought_up(sales, register(sales), ["cat", "no such"])) == {"cat"}


def test_columns_by_which_a_query_joins_are_sketched_together(world: World) -> None:
    world.put("a.parquet", [(n % 50, "a", n % 20) for n in range(1_000)], age=90)
    world.query()
    sales = world.wh.table("sales").arrivals
    found = brought_up(sales, register(sales), ["o_id", "o_id, price", "o_id, no such"])
    assert set(found) == {"o_id", "o_id, price"}
    facts = table_facts(sales, [sales.version()], Forecast("sales", (), ""), found)
    assert facts.together == {frozenset(("o_id", "price")): 100}
    assert set(facts.columns) == set(sales.schema.names)


def test_what_has_been_looked_at_is_not_looked_at_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    query = world.begun()
    asked: list[int] = []

    def noting(files: list[Path], rows: int, columns: list[str]) -> dict[str, ColumnSketch]:
        asked.append(rows)
        return dict(sample.sketches_of(files, rows, columns))

    monkeypatch.setattr(sketches, "sketches_of", noting)
    query.run()
    assert asked == []
    world.put("c.parquet", [(9, "c9", 9)], age=50)
    query.run()
    assert asked == [1]


def test_little_that_comes_to_much_waits_until_it_tells(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table of which a part is looked at a twentieth may come before it is looked at, all that waits at once."""
    world.put("a.parquet", [(n % 9_000, f"c{n % 7}", n % 20) for n in range(40_000)], age=90)
    world.query()
    sales, asked = world.wh.table("sales").arrivals, list[tuple[int, int]]()

    def noting(files: list[Path], rows: int, columns: list[str]) -> dict[str, ColumnSketch]:
        asked.append((len(files), rows))
        return dict(sample.sketches_of(files, rows, columns))

    monkeypatch.setattr(sketches, "sketches_of", noting)
    first = brought_up(sales, register(sales), ["o_id", "cat"])
    assert not first["o_id"].is_whole
    for name, rows in (("b", 1_500), ("c", 400), ("d", 200)):
        world.put(f"{name}.parquet", [(n, "new", 1) for n in range(rows)], age=60)
        found = brought_up(sales, register(sales), ["o_id", "cat"])
    assert asked == [(1, 40_000), (3, 2_100)], "1,900 rows are no twentieth of 40,000, 2,100 are more"
    assert found["o_id"].rows == known_sketches(sales)["o_id"].rows == 42_100
    # Another column is looked at in all that there is, and nothing else with it.
    brought_up(sales, sales.version(), ["o_id", "price"])
    assert asked[2:] == [(4, 42_100)]


def test_a_column_that_cannot_be_sketched_is_not_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put("a.parquet", [(1, "a", 1)], age=90)
    world.query()
    sales, asked = world.wh.table("sales").arrivals, list[list[str]]()

    def none_of_price(files: list[Path], rows: int, columns: list[str]) -> dict[str, ColumnSketch]:
        asked.append(columns)
        return dict(sample.sketches_of(files, rows, [name for name in columns if name != "price"]))

    monkeypatch.setattr(sketches, "sketches_of", none_of_price)
    brought_up(sales, register(sales), ["cat", "price"])
    world.put("b.parquet", [(2, "b", 2)], age=60)
    assert set(brought_up(sales, register(sales), ["cat", "price"])) == {"cat"}
    assert asked == [["cat", "price"], ["cat"]]


def test_a_table_that_is_looked_at_wholly_stays_so(world: World) -> None:
    world.put("a.parquet", [(n, "c", 1) for n in range(900)], age=90)
    world.query()
    sales = world.wh.table("sales").arrivals
    brought_up(sales, register(sales), ["o_id"])
    world.put("b.parquet", [(5_000, "c", 1)], age=60)
    assert brought_up(sales, register(sales), ["o_id"])["o_id"].values() == 901


@pytest.mark.parametrize("damage", ["gone", "cut", "altered", "older", "wrong bytes", "another table's"])
def test_a_damaged_file_costs_estimates_and_is_made_anew(world: World, damage: str) -> None:
    query = world.begun()
    file, whole = stored(world), count(world)
    data = json.loads(file.read_bytes())
    data.pop("checksum")
    match damage:
        case "gone":
            file.unlink()
        case "cut":
            file.write_bytes(file.read_bytes()[:700])
        case "altered":
            file.write_bytes(file.read_bytes().replace(b'"rows": 3', b'"rows": 4'))
        case "older":
            file.write_bytes(to_bytes(sealed(Entry(data | {"sketches": VERSION - 1}))))
        case "wrong bytes":
            for entry in data["columns"].values():
                entry["sketch"]["seen"] = "AAAAAAAA"
            file.write_bytes(to_bytes(sealed(Entry(data))))
        case _:
            for entry in data["columns"].values():
                entry["mark"] = "0" * 32
            file.write_bytes(to_bytes(sealed(Entry(data))))
    assert known_sketches(world.wh.table("sales").arrivals) == {}
    world.put("c.parquet", [(9, "c9", 9)], age=50)
    query.run()
    assert query.verify()
    assert count(world) == whole + 1


def test_a_table_that_begins_anew_has_the_values_of_now(world: World) -> None:
    query = world.begun()
    (world.lake / "a.parquet").unlink()
    world.wh.table("sales").reset()
    assert known_sketches(world.wh.table("sales").arrivals) == {}
    query.run()
    assert count(world) == 2
