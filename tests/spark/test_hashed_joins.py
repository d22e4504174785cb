"""The plan says of which side of a join each task makes a table, and Spark does so; where there is no memory for it, sides are sorted."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Join
from tempura.algebra.scalar import Ref, conjunction, equal
from tempura.execute import tuning
from tempura.execute.files import Files
from tempura.execute.naming import ids
from tempura.execute.tuning import hold_tables
from tempura.plan.progressive import Note, Step
from tests.spark.bags import executor, read, signed_bag

L, R = read("l", "int", "string", signed=False), read("r", "int", "string", signed=False)
TABLES = {
    "l": SignedBag.of([(i % 50, f"x{i % 3}") for i in range(200)]),
    "r": SignedBag.of([(i, f"x{i % 2}") for i in range(40)]),
}


def join(kind: str = "inner") -> Join:
    both = conjunction(*(equal(Ref(a), Ref(b)) for a, b in zip(L.columns, R.columns, strict=True)))
    return Join(L, R, kind, both)  # type: ignore[arg-type]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    made = spark.newSession()
    made.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    return made


@pytest.mark.parametrize(("kind", "side"), [("inner", 0), ("inner", 1), ("left", 1), ("semi", 1), ("anti", 1)])
def test_a_table_is_made_of_the_side_that_the_plan_names(session: SparkSession, kind: str, side: int) -> None:
    session.conf.set("spark.sql.adaptive.enabled", "false")
    rel = join(kind)
    frames = {held: executor(session, TABLES).dataframe(rel, {rel: Note(1.0, 0, held=held)}) for held in (side, None)}
    plans = {held: frame._jdf.queryExecution().executedPlan().toString() for held, frame in frames.items()}
    assert "ShuffledHashJoin" in plans[side], plans[side]
    assert f"Build{('Left', 'Right')[side]}" in plans[side], plans[side]
    assert "SortMergeJoin" in plans[None], plans[None]
    found = {held: signed_bag(frame, len(rel.columns)) for held, frame in frames.items()}
    assert found[side] == found[None]
    assert len(found[side])


def test_tables_are_made_where_tasks_have_the_memory(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hold_tables(session)
    monkeypatch.setattr(tuning, "_task_bytes", lambda context: 1_000_000.0)
    assert not hold_tables(session)
    session.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", "64k")
    assert hold_tables(session)
    session.conf.set("spark.sql.adaptive.enabled", "false")
    assert not hold_tables(session), "nobody looks at how much was shuffled"


def test_a_table_that_turns_out_too_large_is_not_made_again(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, plans = Files._write, list[str]()

    def failing(files: Files, rows, columns, folder: Path) -> str:  # type: ignore[no-untyped-def]
        frame = rows.draft.select(*ids(columns)).dataframe(files.writer)
        plans.append(frame._jdf.queryExecution().sparkPlan().toString())
        if len(plans) == 1:
            try:
                session.sql("SELECT raise_error('There is not enough memory to build hash map.')").collect()
            except Exception as error:
                raise Py4JJavaError("", error._origin) from error  # type: ignore[attr-defined]
        return write(files, rows, columns, folder)

    monkeypatch.setattr(Files, "_write", failing)
    said: list[str] = []
    rel, running = join(), executor(session, TABLES, progress=said.append)
    (tmp_path / "step").mkdir()
    output = running.run(Step(0, (), rel, 0, {rel: Note(1.0, 0, held=1)}), tmp_path / "step").output
    assert output is not None
    assert ["ShuffledHashJoin" in plan for plan in plans] == [True, False]
    assert any("too large" in message for message in said)
    assert output.rows == executor(session, TABLES).dataframe(rel).count()
