"""Joins of two shuffled sides are made by tables where tasks have the memory, and sorted where they turn out not to."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Join, Rel
from tempura.algebra.scalar import Ref, conjunction, equal
from tempura.execute import tuning
from tempura.execute.files import Files
from tempura.execute.naming import ids
from tempura.execute.tuning import HASHED, are_hashed, for_joins
from tempura.plan.progressive import Step
from tests.spark.bags import executor, read, signed_bag

L, R = read("l", "int", "string", signed=False), read("r", "int", "string", signed=False)
TABLES = {
    "l": SignedBag.of([(i % 50, f"x{i % 3}") for i in range(200)]),
    "r": SignedBag.of([(i, f"x{i % 2}") for i in range(40)]),
}
BOTH = Join(L, R, "inner", conjunction(*(equal(Ref(a), Ref(b)) for a, b in zip(L.columns, R.columns, strict=True))))


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    made = spark.newSession()
    made.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    made.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "-1")
    return made


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of what is written, as they ran."""
    seen: list[str] = []
    write = Files._write

    def noting(files: Files, rows, columns, folder: Path) -> str:  # type: ignore[no-untyped-def]
        schema = write(files, rows, columns, folder)
        ran = rows.draft.select(*ids(columns)).dataframe(files.writer)
        ran.collect()
        seen.append(ran._jdf.queryExecution().executedPlan().toString().partition("== Initial Plan ==")[0])
        return schema

    monkeypatch.setattr(Files, "_write", noting)
    return seen


def run(session: SparkSession, folder: Path, rel: Rel = BOTH) -> SignedBag:
    running = executor(session, TABLES)
    output = running.run(Step(0, (), rel, 0), folder / "step").output
    assert output is not None
    return signed_bag(running.result(output, rel.columns, ids(rel.columns)), len(rel.columns))


def test_a_table_is_made_of_a_side_by_two_keys(session: SparkSession, tmp_path: Path, plans: list[str]) -> None:
    assert are_hashed(session)
    hashed = run(session, tmp_path / "hashed")
    session.conf.set(HASHED, "0")
    assert not are_hashed(session), "what the user has set is left"
    assert not for_joins(session)
    assert run(session, tmp_path / "merged") == hashed
    assert len(hashed)
    assert [("ShuffledHashJoin" in plan, "SortMergeJoin" in plan) for plan in plans] == [(True, False), (False, True)]


def test_without_memory_for_tables_sides_are_sorted(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session.conf.set("spark.sql.adaptive.enabled", "false")
    assert not are_hashed(session), "nobody looks at how much was shuffled"
    session.conf.set("spark.sql.adaptive.enabled", "true")
    monkeypatch.setattr(tuning, "_task_bytes", lambda context: 1_000_000.0)
    assert not for_joins(session)
    session.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", "64k")
    assert for_joins(session) == {HASHED: str(64 * 1024)}


def test_a_table_that_turns_out_too_large_is_not_made_again(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, asked = Files._write, []

    def failing(files: Files, rows, columns, folder: Path) -> str:  # type: ignore[no-untyped-def]
        asked.append(files.writer.conf.get(HASHED))
        if asked[-1] != "0":
            try:
                session.sql("SELECT raise_error('There is not enough memory to build hash map.')").collect()
            except Exception as error:
                raise Py4JJavaError("", error._origin) from error  # type: ignore[attr-defined]
        return write(files, rows, columns, folder)

    monkeypatch.setattr(Files, "_write", failing)
    said: list[str] = []
    running = executor(session, TABLES, progress=said.append)
    (tmp_path / "step").mkdir()
    assert running.run(Step(0, (), BOTH, 0), tmp_path / "step").output is not None
    assert asked[0] != "0"
    assert asked[1:] == ["0"]
    assert any("too large" in message for message in said)
