"""Names that differ by case only are one name: as Spark resolves them, and in folders of many file systems."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.declare import QuerySpec, TableSpec
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, BagEngine

SALES = "o_id INT"


@pytest.fixture
def wh(tmp_path: Path) -> Warehouse:
    return open_site(tmp_path / "wh", BagEngine(), Files())


def test_a_table_whose_name_differs_by_case_only_is_refused(wh: Warehouse) -> None:
    wh.add_table("sales", schema=SALES)
    with pytest.raises(TempuraError, match="tables sales and SALES differ by case only") as error:
        wh.add_table("SALES", schema=SALES)
    assert error.value.code == "BAD_NAME"
    assert wh.add_table("sales", schema=SALES).name == "sales"


def test_a_query_whose_name_differs_by_case_only_is_refused(wh: Warehouse) -> None:
    wh.add_table("sales", schema=SALES)
    wh.add_query("n", COUNT)
    with pytest.raises(TempuraError, match="queries n and N differ by case only") as error:
        wh.add_query("N", COUNT)
    assert error.value.code == "BAD_NAME"
    # A table and a query are told apart by what they are.
    wh.add_table("N", schema=SALES)


@pytest.mark.parametrize("section", ["tables", "queries"])
def test_names_that_an_edit_made_alike_are_refused_before_anything_runs(wh: Warehouse, section: str) -> None:
    wh.add_table("sales", schema=SALES)
    wh.add_query("sums", COUNT, schedule=Schedule.view())
    path = wh.path / "tempura.toml"
    old = "sales" if section == "tables" else "sums"
    lines = path.read_text().split(f"[{section}.{old}]")[1].split("\n[")[0]
    path.write_text(f"{path.read_text()}\n[{section}.{old.title()}]{lines}\n")
    for call in (wh.status, lambda: wh.query("sums"), lambda: wh.table("sales"), wh.gc):
        with pytest.raises(TempuraError, match="differ by case only") as error:
            call()
        assert error.value.code == "BAD_NAME"


def test_two_processes_that_add_such_names_at_once(wh: Warehouse) -> None:
    declarations = wh._site.declarations
    declarations.put_table("sales", TableSpec(SALES))
    declarations.put_query("n", QuerySpec(Schedule.view(), COUNT))
    puts: list[Callable[[], None]] = [
        lambda: declarations.put_table("Sales", TableSpec(SALES)),
        lambda: declarations.put_query("N", QuerySpec(Schedule.view(), COUNT)),
    ]
    for put in puts:
        with pytest.raises(TempuraError) as error:
            put()
        assert error.value.code == "BAD_NAME"
    assert set(declarations.read().tables) == {"sales"}
