"""Parquet files of this machine as leaves of plans, and as what plans are written to."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tempura.algebra.scalar import Column
from tempura.execute.contract import Merge
from tempura.execute.draft import Draft
from tempura.execute.files import PACKED, Files
from tempura.execute.relation import Relation
from tempura.execute.writing import write, writer_of
from tempura.frontend.session import clone

Rows = list[tuple[object, ...]]


def written(spark: SparkSession, folder: Path, rows: int = 3) -> str:
    """Write numbers and texts; the schema."""
    frame = writer_of(spark).range(rows).selectExpr("id", "CAST(id AS STRING) AS s")
    write(frame, folder)
    return frame.schema.json()


def read(spark: SparkSession, schema: str, *paths: Path) -> Rows:
    return sorted(map(tuple, Draft.parquet(spark, map(str, paths), schema).dataframe().collect()))


@pytest.mark.parametrize("name", ["plain", "k=1", "id=7", "a b%20+", "[x]*", "ü{1,2}"])
def test_a_path_is_a_name_and_spells_no_column(spark: SparkSession, tmp_path: Path, name: str) -> None:
    schema = written(spark, tmp_path / name / "s=z")
    files = sorted((tmp_path / name / "s=z").glob("*.parquet"))
    assert Draft.parquet(spark, [str(tmp_path / name / "s=z")], schema).dataframe().columns == ["id", "s"]
    assert (
        read(spark, schema, tmp_path / name / "s=z") == read(spark, schema, *files) == [(i, str(i)) for i in range(3)]
    )


def test_what_is_missing_is_not_taken_for_empty(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's index of files passes over paths that are not there."""
    schema = written(spark, tmp_path / "a")
    with pytest.raises(Py4JJavaError, match=r"FileNotFoundException.*b"):
        Draft.parquet(spark, [str(tmp_path / "a"), str(tmp_path / "b")], schema)


def test_a_lenient_session_reads_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    schema = written(spark, tmp_path / "a")
    (tmp_path / "a" / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    lenient = clone(spark)
    lenient.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    with pytest.raises(Exception, match=r"broken\.parquet"):
        read(lenient, schema, tmp_path / "a")


def test_a_folder_is_written_once_and_has_files_of_rows_only(spark: SparkSession, tmp_path: Path) -> None:
    schema = written(spark, tmp_path / "a")
    assert {path.suffix for path in (tmp_path / "a").iterdir()} == {".parquet", ".crc"}
    with pytest.raises(FileExistsError):
        written(spark, tmp_path / "a")
    assert len(read(spark, schema, tmp_path / "a")) == 3
    write(writer_of(spark, marked=True).range(1), tmp_path / "b")
    assert (tmp_path / "b" / "_SUCCESS").exists()


def test_a_relation_without_rows_has_a_file(spark: SparkSession, tmp_path: Path) -> None:
    schema = written(spark, tmp_path / "none", rows=0)
    assert list((tmp_path / "none").glob("*.parquet"))
    assert read(spark, schema, tmp_path / "none") == []


def test_states_are_packed_as_measured_and_results_as_the_session_says(spark: SparkSession, tmp_path: Path) -> None:
    session = clone(spark)
    session.conf.set("spark.sql.parquet.compression.codec", "zstd")
    columns = (Column("n", "n", "bigint"),)
    rows = Relation(Draft.of(session.range(1000).toDF("n")), weighted=False)
    for packed, codec in ((PACKED, "LZ4"), ({"compression": "snappy"}, "SNAPPY")):
        files = Files(session, packed=packed)
        stored = files.save(rows, columns, (0,), tmp_path / codec / "state")
        assert codecs(tmp_path / codec / "state") == {codec}
        assert sorted(files.load(stored, columns).draft.dataframe().collect()) == [(n,) for n in range(1000)]
        files.save_output(rows, columns, tmp_path / codec / "result")
        assert codecs(tmp_path / codec / "result") == {"ZSTD"}


def test_states_hold_differences_where_a_dictionary_does_not_pay(spark: SparkSession, tmp_path: Path) -> None:
    """Only pages of Parquet's second version can, and a state has them in each of its parts. Results are as Spark writes them."""
    columns = tuple(Column(name, name, type) for name, type in (("n", "bigint"), ("s", "string"), ("k", "string")))
    values = ("id", "CONCAT('row ', CAST(id AS STRING))", "CONCAT('kind ', CAST(id % 3 AS STRING))")
    session = clone(spark)

    def rows(begin: int) -> Relation:
        return Relation(Draft.of(session.range(begin, begin + 2000, 1, 1).selectExpr(*values).toDF(*"nsk")), False)

    files = Files(session)
    first = files.save(rows(0), columns, (), tmp_path / "first")
    both = files.append(first, 1, Merge(keys=3), rows(2000), columns, tmp_path / "second")
    assert len(both.parts) == 2
    for part in both.parts:
        assert encodings(Path(part.path)) == [{"DELTA_BINARY_PACKED"}, {"DELTA_BYTE_ARRAY"}, {"RLE_DICTIONARY"}]
    files.save_output(rows(0), columns, tmp_path / "result")
    assert encodings(tmp_path / "result") == [{"PLAIN"}, {"PLAIN"}, {"PLAIN_DICTIONARY"}]


def encodings(folder: Path) -> list[set[str]]:
    """How the values of each column of a folder's only file are written; how its levels are, and its dictionary, is left out."""
    (file,) = folder.glob("*.parquet")
    group = pq.read_metadata(file).row_group(0)
    found = [set(group.column(i).encodings) - {"RLE", "BIT_PACKED"} for i in range(group.num_columns)]
    return [own - {"PLAIN"} or own for own in found]


def codecs(folder: Path) -> set[str]:
    """How the columns of a folder's files are packed."""
    footers = [pq.read_metadata(file) for file in folder.glob("*.parquet")]
    groups = [footer.row_group(i) for footer in footers for i in range(footer.num_row_groups)]
    return {group.column(0).compression for group in groups}
