"""Queries that are easy to maintain wrongly, through the warehouse, arrival by arrival: each result is Spark's own."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tempura.cost.model import CostModel
from tempura.frontend.marker import schema_leaf
from tempura.frontend.session import active, clone
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.warehouse import open_site
from tests.spark.hostile_queries import ARRIVALS, QUERIES, TABLES

METHODS = ("im1",)
Arrival = Mapping[str, tuple[Sequence[str], Sequence[str]]]
"""Rows that come and rows that leave, by table."""

REPRESENTATIVE = (
    ("joins", 8),
    ("sub-queries", 19),
    ("sub-queries", 23),
    ("sets", 5),
    ("aggregates", 26),
    ("windows", 2),
    ("lateral", 12),
    ("lateral", 15),
    ("order and limit", 0),
    ("order and limit", 10),
    ("order and limit", 12),
    ("names and types", 3),
    ("with and values", 1),
)
"""Queries of each group, by their places, that are run each time; ``script/test-full`` runs all."""  # fmt: skip


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session for many small queries: nothing is compiled."""
    own = clone(spark)
    own.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    own.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    with active(own):
        yield own


class Trial:
    """A warehouse with some queries, and beside it the rows that its tables should have."""

    def __init__(
        self,
        session: SparkSession,
        folder: Path,
        queries: Sequence[str],
        tables: Mapping[str, str] = MappingProxyType(TABLES),
        promises: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        methods: Sequence[str] = METHODS,
        prices: CostModel | None = None,
    ) -> None:
        """``tables``: their schemas; ``promises``: what else is declared of them, by name. The queries are run by the ``methods`` in turn.
        ``prices``: those to plan by, if not those of the machine."""
        self._session, self._tables = session, tables
        self._rows: dict[str, Counter[str]] = {name: Counter() for name in tables}
        engine = SparkEngine(lambda: session, prices)
        self._warehouse = open_site(folder, engine, Files(), lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))
        for name, schema in tables.items():
            self._warehouse.add_table(name, schema=schema, **promises.get(name, {}))
        self._queries = [self._warehouse.add_query(f"q{i}", sql=sql) for i, sql in enumerate(queries)]
        self._methods = dict(zip((query.name for query in self._queries), cycle(methods)))

    def run(self, arrivals: Sequence[Arrival] = ARRIVALS) -> list[str]:
        """What is wrong, at which time."""
        problems = [f"{time}: {problem}" for time, arrival in enumerate(arrivals) for problem in self._step(arrival)]
        return problems or [f"{query.sql}: {found}" for query in self._queries if not (found := query.verify())]

    def _step(self, arrival: Arrival) -> Iterator[str]:
        for name, (new, old) in arrival.items():
            if old:
                self._warehouse.table(name).delete(self._frame(name, old))
            if new:
                self._warehouse.table(name).append(self._frame(name, new))
            self._rows[name].update(new)
            self._rows[name].subtract(old)
        for name in self._tables:
            self._frame(name, list(self._rows[name].elements())).createOrReplaceTempView(name)
        for query in self._queries:
            problem = self._problem(query)
            if problem:
                yield f"{query.sql}: {problem}"

    def _problem(self, query: Query) -> str | None:
        try:
            query.run(methods=self._methods[query.name])
            ours, theirs = query.result(), self._session.sql(str(query.sql))
            if ours.columns != theirs.columns or ours.dtypes != theirs.dtypes:
                return f"columns {ours.dtypes}, should be {theirs.dtypes}"
            found, wanted = bag(ours), bag(theirs)
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return None if found == wanted else f"extra {found - wanted}, missing {wanted - found}"

    def _frame(self, table: str, rows: Sequence[str]) -> DataFrame:
        schema = StructType.fromDDL(self._tables[table])
        assert isinstance(schema, StructType)
        if not rows:
            return schema_leaf(self._session, table, schema)
        return self._session.sql(f"SELECT * FROM VALUES {', '.join(rows)}").toDF(*schema.names).to(schema)


def bag(rows: DataFrame) -> Counter[str]:
    """Rows as texts; sums of floats, whose last digits depend on their order, to twelve digits. Of a collation that ignores case, either of
    'a' and 'A' may stand for a group, in Spark as here: then they are the same text."""
    folded = [" collate UTF8_LCASE" in type for _, type in rows.dtypes]
    return Counter(repr(tuple(map(_determined, row, folded))) for row in rows.collect())


def _determined(value: object, folded: bool) -> object:
    if isinstance(value, float):
        return float(f"{value:.12g}")
    return value.lower() if folded and isinstance(value, str) else value


def test_representative_queries_are_exact_at_each_time(session: SparkSession, tmp_path: Path) -> None:
    queries = [QUERIES[group][i] for group, i in REPRESENTATIVE]
    assert {group for group, _ in REPRESENTATIVE} == set(QUERIES)
    assert Trial(session, tmp_path / "wh", queries).run() == []


@pytest.mark.full
@pytest.mark.sweep
@pytest.mark.parametrize("group", QUERIES)
def test_hostile_queries_are_exact_at_each_time(session: SparkSession, tmp_path: Path, group: str) -> None:
    assert Trial(session, tmp_path / "wh", QUERIES[group]).run() == []
