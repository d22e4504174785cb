"""Rules of a module that ``tempura.toml`` names, on Spark: the worked example of docs/writing-a-rule.md, refreshed by its method."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp

PAGE = (Path(__file__).parents[2] / "docs" / "writing-a-rule.md").read_text(encoding="utf-8")
SCHEMA = "item STRING, price INT"


def test_a_module_that_is_named_is_planned_with_and_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = re.findall(r"```python\n(\"\"\"A state for each branch.*?)```", PAGE, re.DOTALL)
    (sql,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "branches_on_spark.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    warehouse = tp.open(tmp_path / "wh", spark=spark)
    declared = tmp_path / "wh" / "tempura.toml"
    declared.write_text(f'{declared.read_text()}\n[rules]\nmodules = ["branches_on_spark"]\n')
    tables = {name: warehouse.add_table(name, schema=SCHEMA) for name in ("north", "south", "east")}
    for i, table in enumerate(tables.values()):
        table.append(spark.createDataFrame([(item, price + i) for item in "abc" for price in range(50)], SCHEMA))
    query = warehouse.add_query("least", sql=sql, methods=["branches"], require="incremental")
    for n, changed in enumerate((None, "south", "east", "south")):
        if changed:
            tables[changed].append(spark.createDataFrame([("a", 100 + n), (None, n)], SCHEMA))
            tables[changed].delete(spark.createDataFrame([("b", 10 + n), ("c", 20 + n)], SCHEMA))
        plan = query.plan()
        assert plan.to_json()["registry"] == warehouse.rules.fingerprint
        assert all(part["methods"] in (("branches",), ()) for part in plan.to_json("rules")["rules"])
        assert query.run().method == "branches"
        assert query.verify().equal
    assert "merge_states_of_branches" in {rule.name for rule in warehouse.rules.rules}


def test_a_module_that_is_broken_stops_a_run_and_nothing_else(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    warehouse = tp.open(tmp_path / "wh", spark=spark)
    warehouse.add_table("t", schema=SCHEMA).append(spark.createDataFrame([("a", 1)], SCHEMA))
    warehouse.add_query("q", sql="SELECT item, COUNT(*) AS n FROM t GROUP BY item").run()
    (tmp_path / "broken_rules.py").write_text("from tempura.rules import no_such_name\n")
    declared = tmp_path / "wh" / "tempura.toml"
    declared.write_text(f'{declared.read_text()}\n[rules]\nmodules = ["broken_rules"]\n')
    again = tp.open(tmp_path / "wh", spark=spark)
    for act in (again.query("q").plan, again.query("q").run):
        with pytest.raises(tp.TempuraError) as error:
            act()
        assert error.value.code == "BAD_RULES_MODULE"
        assert "broken_rules.py, line 1" in error.value.what
    assert [row.n for row in again.query("q").result().collect()] == [1]
    assert len(again.query("q").history()) == 1
    assert again.status()["queries"]["q"]["runs"] == 1
    again.gc()
