"""Files of several formats read by Spark into a warehouse, one batch of checks per format."""

import gzip
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as fn

import tempura as tp
from tempura.errors import TempuraError
from tempura.execute.draft import Draft
from tempura.warehouse.spark.incoming import Coming, touched
from tempura.warehouse.spark.json_text import is_one_value
from tempura.warehouse.spark.rows import columns_of, signed_rows
from tempura.warehouse.table import Table
from tempura.warehouse.warehouse import Warehouse


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=spark)


def put(path: Path, text: str, age: float = 100) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)


def rows(table: Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in table.df().collect()), key=str)


def refused(table: Table, file: Path, *parts: str) -> None:
    with pytest.raises(TempuraError) as error:
        table.df()
    assert error.value.code == "WRONG_SCHEMA"
    assert all(part in str(error.value) for part in (str(file), *parts)), str(error.value)
    file.unlink()


def test_csv(wh: Warehouse, tmp_path: Path) -> None:
    lake = tmp_path / "la ke+%20"
    put(lake / "day=2026-01-01" / "a.csv", 'id;price;note\n1;2.50;"a;b"\n2;;\n', 90)
    table = wh.add_table("t", path=lake, format="csv", options={"sep": ";"}, keys=["id"])
    assert table.schema.simpleString() == "struct<id:int,price:double,note:string,day:date>"
    put(lake / "day=2026-01-02" / "b.csv", "note;_change;price;id\nx;insert;1;3\nnew;update;7;2\n", 80)
    first, second = date(2026, 1, 1), date(2026, 1, 2)
    expected = [(1, 2.5, "a;b", first), (2, 7.0, "new", second), (3, 1.0, "x", second)]
    assert rows(table) == expected
    bad = lake / "day=2026-01-03" / "c.csv"
    put(bad, "id;price;note\n4;1;x\n5;dear;x\n")
    refused(table, bad, "column price has the value 'dear'", "expects double")
    put(bad, "id;price;note\n4;1\n")
    refused(table, bad, "'4;1' is not a record of the columns id, price, note")
    put(bad, "id;note;price\nn;x;1\n")
    refused(table, bad, "column id has the value 'n'", "expects int")
    put(bad, "id;note;price;_change\n1;x;1;upsert\n")
    with pytest.raises(TempuraError, match="'upsert', not insert, delete or update"):
        table.df()
    bad.unlink()
    assert rows(table) == expected


def test_json(wh: Warehouse, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    put(lake / "a.json", '{"id": 1, "tags": ["x"], "at": "2026-01-01T10:00:00Z"}\n{"id": 2}\n', 90)
    table = wh.add_table("t", path=lake, format="json", schema="id INT, tags ARRAY<STRING>, at TIMESTAMP")
    put(lake / "b.json", '{"id": 2, "_change": "delete"}\n{"id": 3, "tags": [], "_change": "insert"}\n', 80)
    found = [(row[0], row[1]) for row in rows(table)]
    assert found == [(1, ["x"]), (3, [])]
    at = table.df().selectExpr("max(unix_timestamp(at))").first()
    assert at is not None
    assert at[0] == int(datetime(2026, 1, 1, 10, tzinfo=UTC).timestamp())
    bad = lake / "c.json"
    put(bad, '{"id": 4}\n{"id": "five"}\n')
    refused(table, bad, "column id has the value 'five'", "expects int")
    put(bad, '{"id": 4\n')
    refused(table, bad, "is not a record")
    put(bad, '{"id": 4, "_change": "insert"}\n{"id": 5}\n')
    with pytest.raises(TempuraError, match="value None, not insert, delete or update"):
        table.df()
    bad.unlink()
    assert wh.add_table("t", path=lake, format="json").schema == table.schema


ALONE = (
    *('{"id": 1}', '{"id": 1, "s": {"t": "}{"}}', '[{"id": 1}, {"id": 2}]', "[]", '{"id": 1, "s": {"t": "\\ud800"}}'),
    *(
        "{'id': 1, 's': {'t': '}'}}",
        '{"s": {"n": NaN}}',
        '  {"id": 1}  ',
        "",
        "   ",
        '{"id": 1, "_tempura_end": {"a": []}}',
    ),
    '{"a": ' * 8 + "1" + "}" * 8,
    '{"a": "' + r"\n" * 20_000 + '", "b": {}}',
)
FOLLOWED = (
    *(
        '{"id": 1}{"id": 2}',
        '{"id": 1} {"id": 2}',
        '{"id": 1} junk',
        '{"id": 1}, {"id": 2}',
        '{"id": 1},',
        '{"id": 1}}',
    ),
    *('{"id": 1}] junk', '{"id": 1}],[{"id": 2}', '{"id": 1}, "x": {}', '[{"id": 1}] 3', '[{"id": 1}],[{"id": 2}]'),
    *('{"s": {"t": 1}} {"id": 2}', '{"s": {"t": 1}}}', "{'id': 1} {}", '{"id": 1}\0\0', '[{"id": 1}]]'),
)


def test_which_texts_are_one_value_of_json(spark: SparkSession) -> None:
    texts = spark.createDataFrame([(text,) for text in (*ALONE, *FOLLOWED)], "text STRING")
    found = [row[0] for row in texts.select(is_one_value(fn.col("text"), {})).collect()]
    assert found == [True] * len(ALONE) + [False] * len(FOLLOWED)


def test_nothing_follows_a_record_of_json(wh: Warehouse, tmp_path: Path) -> None:
    lake, bad = tmp_path / "lake", tmp_path / "lake" / "b +.json"
    put(lake / "a.json", '\ufeff{"id": 1}\n\n[{"id": 2}, {"id": 3}]\n{"id": 4, "s": {"t": "}{"}}  \r\n')
    table = wh.add_table("t", path=lake, format="json", schema="id INT, s STRUCT<t: STRING>")
    expected = [(1, None), (2, None), (3, None), (4, ("}{",))]
    assert rows(table) == expected
    for text in ('{"id": 5}{"id": 6}', '{"id": 5} {"id": 6}', '{"id": 5} junk', '{"id": 5},', '{"s": {"t": "x"}}}'):
        put(bad, f'{{"id": 4}}\n{text}\n{{"id": 7}}\n')
        refused(table, bad, f"{text!r} is more than one record", "a line holds one", "Write one per line")
    assert rows(table) == expected


def test_nothing_follows_a_record_of_json_in_another_encoding(wh: Warehouse, tmp_path: Path) -> None:
    for encoding in ("UTF-16LE", "ISO-8859-1"):
        lake, bad = tmp_path / encoding, tmp_path / encoding / "b.json"
        lake.mkdir()
        (lake / "a.json").write_text('{"s": "ä"}\n{"s": "}"}\n', encoding=encoding)
        options = {"encoding": encoding, "lineSep": "\n"}
        table = wh.add_table(f"t{len(encoding)}", path=lake, format="json", schema="s STRING", options=options)
        assert rows(table) == [("}",), ("ä",)]
        bad.write_text('{"s": "ö"}\n{"s": "ü"} {}\n', encoding=encoding)
        refused(table, bad, """'{"s": "ü"} {}' is more than one record""")


def test_nothing_follows_the_records_of_a_file_of_json(wh: Warehouse, tmp_path: Path) -> None:
    lake, bad = tmp_path / "lake", tmp_path / "lake" / "c.json"
    put(lake / "a.json", '[\n {"id": 1},\n {"id": 2}\n]\n')
    put(lake / "b.json", '\ufeff{\n "id": 3, "s": {"t": 1}\n}\n')
    (lake / "d.json").write_text('{"id": 4}', encoding="utf-16")
    table = wh.add_table("t", path=lake, format="json", schema="id INT", options={"multiLine": "true"})
    assert rows(table) == [(1,), (2,), (3,), (4,)]
    put(bad, '{"id": 5}\n{"id": 6}\n')
    refused(table, bad, "is more than one record, but a file holds one", "leave out multiLine")
    put(bad, '[{"id": 5}]\n[{"id": 6}]\n')
    refused(table, bad, "is more than one record")


def test_files_that_cannot_be_read_are_named(wh: Warehouse, tmp_path: Path) -> None:
    whole = gzip.compress("\n".join(json.dumps({"id": i, "s": os.urandom(9).hex()}) for i in range(3000)).encode())
    for format, data in (("json", b"no gzip"), ("json", whole[:-9000]), ("csv", whole[:-9000])):
        lake = tmp_path / f"{format} {len(data)}+"
        options = {"header": "false"} if format == "csv" else {}
        table = wh.add_table(
            f"{format}{len(data)}", path=lake, format=format, schema="id STRING, s STRING", options=options
        )
        lake.mkdir()
        (lake / "a.gz").write_bytes(data)
        with pytest.raises(TempuraError) as error:
            table.df()
        assert error.value.code == "FILE_UNREADABLE"
        assert error.value.what.startswith(f"{lake}/a.gz cannot be read: "), error.value.what
        assert "take it out of the table's folder" in error.value.remedy


def test_names_that_occur_twice_are_told_with_their_file(wh: Warehouse, tmp_path: Path) -> None:
    lake, bad = tmp_path / "lake", tmp_path / "lake" / "b.json"
    table = wh.add_table("t", path=lake, format="json", schema="id INT, s STRUCT<t: INT>")
    put(lake / "a.json", '{"id": 1}\n{"id": 2}\n')
    for text in ('{"id": 1, "id": 2}', '{"id": 1, "ID": 2}'):
        put(bad, text)
        refused(table, bad, "the name id occurs twice", "Write the file again with each name once")
    put(bad, '{"id": 1, "s": {"t": 1, "t": 2}}')
    refused(table, bad, "the name t occurs twice")


def test_values_in_paths_that_spark_alone_judges(wh: Warehouse, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    put(lake / "at=noon" / "a.csv", "id\n1\n")
    table = wh.add_table("t", path=lake, format="csv", schema="id INT, at TIMESTAMP")
    with pytest.raises(TempuraError) as error:
        table.df()
    assert error.value.code == "INVALID_PARTITION_VALUE"
    assert "`at`" in error.value.what
    assert "'noon'" in error.value.what
    assert error.value.remedy.startswith("Name the folder that spells it by another value")


def test_parquet_of_changes_beside_partitioned_files(wh: Warehouse, spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    def write(data: Sequence[tuple[object, ...]], ddl: str, day: int) -> None:
        spark.createDataFrame(data, ddl).coalesce(1).write.parquet(str(lake / f"day={day}"))

    write([(1, "a"), (2, "b"), (2, "b")], "id INT, name STRING", 1)
    table = wh.add_table("t", path=lake)
    query = wh.add_query("q", "SELECT day, count(*) n, max(name) m FROM t GROUP BY day ORDER BY day")
    query.run()
    write([(2, "b", "insert"), (3, "c", "insert")], "id INT, name STRING, _change STRING", 2)
    query.run()
    assert rows(table) == [(1, "a", 1), (2, "b", 1), (2, "b", 1), (2, "b", 2), (3, "c", 2)]
    assert [tuple(r) for r in query.result().collect()] == [(1, 3, "b"), (2, 2, "c")]
    assert query.verify()


def test_upserts_read_the_rows_of_their_keys_only(wh: Warehouse, spark: SparkSession) -> None:
    table = wh.add_table("t", schema="id BIGINT, name STRING, tags MAP<STRING, INT>", keys=["id"])
    table.append(spark.range(1000).selectExpr("id", "'a' name", "map('k', 1) tags"))
    table.upsert(spark.sql("SELECT 5L id, 'b' name, map('k', 2) tags UNION ALL SELECT 2000L, 'c', NULL"))
    changes = "SELECT 7L id, 'z' name, map('k', 1) tags, 'update' _change"
    changes += " UNION ALL SELECT 8L, 'a', map('k', 1), 'delete' UNION ALL SELECT NULL, NULL, NULL, 'update'"
    table.apply(spark.sql(changes))
    found = table.df().selectExpr("count(*)", "count_if(name = 'a')", "count_if(id = 8)", "max(tags['k'])").first()
    assert found is not None
    assert tuple(found) == (1001, 997, 0, 2)
    with pytest.raises(TempuraError, match=r"more than one row would have the key \{'id': 9\}"):
        table.append(spark.sql("SELECT 9L id, 'a' name, NULL tags"))
    with pytest.raises(TempuraError, match=r"a row to be deleted is not there.*'name': 'q'"):
        table.delete(spark.sql("SELECT 9L id, 'q' name, map('k', 1) tags"))
    # What arrives decides which row groups of the stored files are read.
    source = table._arrivals.source(0, 1)
    key = columns_of(source.schema)[:1]

    def plan(coming: str) -> str:
        there = touched(signed_rows(spark, source), Coming(Draft.of(spark.sql(coming))), key, source.rows).dataframe()
        return str(there._jdf.queryExecution().executedPlan().toString())

    assert "GreaterThanOrEqual(id,5), LessThanOrEqual(id,9)" in plan("SELECT 5L x0 UNION ALL SELECT 9L")
    assert "GreaterThan" not in plan("SELECT 5L x0 UNION ALL SELECT 900L"), "no part could be left out"


def test_what_is_no_dataframe_is_no_rows(wh: Warehouse, spark: SparkSession) -> None:
    table = wh.add_table("t", schema="id INT", keys=["id"])
    table.append(spark.sql("SELECT 1 id"), id="once")
    others: list[Any] = [3, "x", [(1,)], {"id": 1}, Row(id=1)]
    for rows in others:
        for push in (table.append, table.upsert, table.delete, table.apply):
            for id in (None, "once"):
                with pytest.raises(TempuraError, match=f"are a {type(rows).__name__}, not a DataFrame") as error:
                    push(rows, id=id)
                assert error.value.code == "BAD_ROWS"
    assert wh.status()["tables"]["t"]["version"] == 1


def test_a_query_may_name_a_table_in_another_case(wh: Warehouse, spark: SparkSession) -> None:
    table = wh.add_table("Evo", schema="id INT, name STRING")
    table.append(spark.sql("SELECT 1 id, 'a' name UNION ALL SELECT 2, 'b'"))
    query = wh.add_query("q", "SELECT EVO.name, count(*) n FROM EVO JOIN evo AS other USING (id) GROUP BY EVO.name")
    query.run()
    table.append(spark.sql("SELECT 3 id, 'b' name"))
    query.run()
    assert sorted(tuple(row) for row in query.result().collect()) == [("a", 1), ("b", 2)]
    assert query.steps()[-1].inputs == {"Evo": 2}
    assert query.verify()
    with pytest.raises(TempuraError, match="Evo and EVO differ by case only") as error:
        wh.add_table("EVO", schema="id INT")
    assert error.value.code == "BAD_NAME"
