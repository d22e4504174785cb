"""``tempura bench estimates``: how many rows the planner expects of each operator of a query, against how many there are.

Each query is planned as one step over whole tables and computed once; Spark counts the rows of every operator on the way. The *q-error*
of an operator is the larger of estimate ÷ truth and truth ÷ estimate, both at least one row (Moerkotte et al., VLDB 2009).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.rel import Aggregate, Filter, Join, Rel, scans
from tempura.bench.exactness import described_run
from tempura.bench.planning import Tables
from tempura.bench.suites import SUITES, chosen
from tempura.data.tpcds import Dataset
from tempura.errors import TempuraError
from tempura.execute import functions as fn
from tempura.execute.draft import Draft
from tempura.execute.naming import ids
from tempura.execute.relation import Relation
from tempura.execute.render import Renderer
from tempura.frontend.lift import lift_sql
from tempura.frontend.session import clone
from tempura.physical.operators import Read
from tempura.plan.progressive import Note
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem, TableFacts

Row = dict[str, Any]

_KINDS = (Filter, Join, Aggregate)
"""Operators whose rows are neither those of their input nor known."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """What is estimated: a suite at a scale."""

    suite: str
    scale: float

    def meta(self) -> Row:
        """The options and where it runs."""
        return described_run("estimates", asdict(self))


def estimate_all(spark: SparkSession, asked: Estimates, queries: str) -> Iterator[Row]:
    """A row per query, in the suite's order: its ``operators`` with estimate and truth. One that fails has its ``error`` and none."""
    dataset = SUITES[asked.suite].tables(asked.scale)
    tables = Tables.of(spark, dataset)
    for name, sql in chosen(queries, SUITES[asked.suite].queries).items():
        try:
            yield {"query": name, "operators": list(_operators(spark, dataset, tables, sql)), "error": None}
        except (TempuraError, PySparkException) as error:
            yield {"query": name, "operators": [], "error": str(error).splitlines()[0]}


def _operators(spark: SparkSession, dataset: Dataset, tables: Tables, sql: str) -> Iterator[Row]:
    lifted = lift_sql(spark, sql, tables.schemas)
    emit, notes = planned(lifted.rel, tables.asked(lifted.rel))
    for rel, rows in counted(clone(spark), dataset, emit).items():
        expected = notes[rel].rows
        found = {"operator": rel.label, "kind": type(rel).__name__, "estimated": round(expected, 1), "rows": rows}
        yield found | {"q_error": round(q_error(expected, rows), 2)}


def planned(query: Rel, facts: Mapping[str, TableFacts]) -> tuple[Rel, Mapping[Rel, Note]]:
    """The batch plan of a query over whole tables, and what the planner knows of its operators."""
    own = {scan.table: facts[scan.table] for scan in scans(query)}
    (step,) = make_plan(Problem(query, (Point(1.0, output=True),), own), ("batch",)).steps
    assert step.emit is not None
    return step.emit, step.notes


def counted(session: SparkSession, dataset: Dataset, rel: Rel) -> dict[Rel, int]:
    """The rows of the operators of an expression, counted while it is computed. Those that Spark finds out not to be needed, because
    another operator has no rows, are left out."""

    def read(leaf: Rel) -> Relation:
        assert isinstance(leaf, Read)
        rows = session.read.parquet(f"file:{dataset.file(leaf.scan.table)}").select(*leaf.scan.fields)
        return Relation(Draft.of(rows).renamed(*ids(leaf.scan.outputs)), weighted=False)

    # An empty side would end a join before its other side is counted.
    session.conf.set("spark.sql.adaptive.enabled", "false")
    renderer = _Counting(session, read)
    frame = renderer.relation(rel).draft.dataframe().agg(fn.count(fn.lit(1)))
    frame.collect()
    return {rel: rows for rel, name in renderer.names.items() if (rows := _observed(frame, name)) is not None}


class _Counting(Renderer):
    """Counts the rows of operators on the way, under ``names``."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.names: dict[Rel, str] = {}

    def _operator(self, rel: Rel, inputs: list[Relation]) -> Relation:
        made = super()._operator(rel, inputs)
        if not isinstance(rel, _KINDS):
            return made
        name = self.names[rel] = f"rows {len(self.names)}"
        counted = made.draft.dataframe().observe(name, fn.count(fn.lit(1)))
        return Relation(Draft.of(counted), made.weighted)


def _observed(frame: DataFrame, name: str) -> int | None:
    found = frame._jdf.queryExecution().observedMetrics().get(name)
    return int(found.get().getLong(0)) if found.isDefined() else None


def q_error(estimated: float, true: float) -> float:
    """By which factor an estimate is off: 1 where it is right."""
    a, b = max(1.0, estimated), max(1.0, true)
    return max(a / b, b / a)


def summarised(rows: Sequence[Row]) -> Row:
    """Median, 95th percentile and greatest q-error of all operators, and of each kind."""
    found = [operator for row in rows for operator in row["operators"]]
    kinds = {kind: [o for o in found if o["kind"] == kind] for kind in sorted({o["kind"] for o in found})}
    return {kind: spread_of([o["q_error"] for o in own]) for kind, own in (("all", found), *kinds.items())}


def spread_of(errors: Sequence[float]) -> Row:
    """Median, 95th percentile and greatest of some q-errors."""
    if not errors:
        return {"n": 0, "median": None, "p95": None, "max": None}
    p95 = quantiles(errors, n=20, method="inclusive")[-1] if len(errors) > 1 else errors[0]
    return {"n": len(errors), "median": round(median(errors), 2), "p95": round(p95, 1), "max": round(max(errors), 1)}
