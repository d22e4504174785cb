"""Generated data: whole, cached, and cut by date without losing a row."""

from collections import Counter
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tempura.data.tpcds import DATES, Dataset, cut_dates, generate, split_by_date
from tempura.errors import TempuraError


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return generate(0.01, tmp_path_factory.mktemp("cache"))


def rows(file: Path) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in pq.read_table(file).to_pylist())


def test_all_tables_are_made(dataset: Dataset) -> None:
    assert len(dataset.tables) == 24
    assert pq.read_metadata(dataset.file("store_sales")).num_rows > 10_000


def test_types_are_exact(dataset: Dataset) -> None:
    sales = pq.read_schema(dataset.file("store_sales"))
    assert sales.field("ss_item_sk").type == pa.int64()
    assert sales.field("ss_net_paid").type == pa.decimal128(7, 2)
    assert pq.read_schema(dataset.file("date_dim")).field("d_date").type == pa.date32()


def test_a_scale_is_made_once(dataset: Dataset) -> None:
    before = dataset.file("item").stat().st_mtime_ns
    again = generate(0.01, dataset.folder.parent)
    assert again == dataset
    assert again.file("item").stat().st_mtime_ns == before
    assert [p.name for p in dataset.folder.parent.iterdir()] == [dataset.folder.name], "no half-made folder is left"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return generate(0.01, tmp_path_factory.mktemp("cache"), suite="tpch")


@pytest.mark.parametrize("table", DATES)
def test_arrivals_are_cut_by_date_and_lose_nothing(orders: Dataset, tmp_path: Path, table: str) -> None:
    cuts = cut_dates(orders, (0.5, 0.8), table)
    files = split_by_date(orders, table, cuts, tmp_path)
    parts = [rows(file) for file in files]
    assert len(parts) == 3
    assert sum(parts, Counter()) == rows(orders.file(table))
    assert pq.read_schema(files[0]).names == pq.read_schema(orders.file(table)).names
    day = pq.read_schema(files[0]).get_field_index(DATES[table])
    for i, part in enumerate(parts):
        assert {arrival_of(row[day], cuts) for row in part} == {i}
    shares = [part.total() / rows(orders.file(table)).total() for part in parts]
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.01)


def arrival_of(day: object, cuts: tuple[date, ...]) -> int:
    assert isinstance(day, date)
    return sum(day > cut for cut in cuts)


def test_refusals_have_codes(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(TempuraError, match="BAD_SCALE"):
        generate(0)
    with pytest.raises(TempuraError, match="NOT_A_FACT_TABLE"):
        split_by_date(dataset, "item", (), tmp_path)
    with pytest.raises(TempuraError, match="UNKNOWN_TABLE"):
        dataset.file("sales")


def test_without_the_packages_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(TempuraError, match=r"NO_GENERATOR.*tempura\[demo\]"):
        generate(0.01, tmp_path)
