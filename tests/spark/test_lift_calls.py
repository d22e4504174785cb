"""Lifting takes few calls to the JVM, and what is read of a plan at once is what single calls show."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.clientserver import JavaClient
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession

from tempura.data.tpcds import generate, query_texts
from tempura.frontend.catalyst import JavaObject, analyse_sql, class_of, optimise
from tempura.frontend.compiled import compiled
from tempura.frontend.java import each
from tempura.frontend.lift import lift_sql
from tempura.frontend.marker import schema_leaf
from tempura.frontend.session import active, clone
from tempura.frontend.tree import Node, Some, Tree
from tests.spark.lifting import lift as lift_small
from tests.spark.lifting import schemas

MOST_CALLS = 150
"""Of any query: about 40, and six per scalar sub-query. One call per rule and node were 60,376 for q14."""

STATEMENTS = (
    "SELECT o_id + 1 AS n, CAST(price AS STRING) AS s FROM sales WHERE cat LIKE 'a/_%' ESCAPE '/' AND qty IN (1, 2, 3)",
    "SELECT cat, SUM(price) FILTER (WHERE qty > 1) AS s, COUNT(DISTINCT day) AS n FROM sales GROUP BY cat HAVING MAX(f) > 0",
    "SELECT o_id, RANK() OVER (PARTITION BY cat ORDER BY price DESC NULLS LAST) AS r FROM sales ORDER BY r LIMIT 3",
    "SELECT s.o_id FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id AND r.cost > (SELECT AVG(cost) FROM returns)",
    "SELECT o_id, x FROM sales LATERAL VIEW OUTER explode(xs) AS x WHERE EXISTS (SELECT 1 FROM returns r WHERE r.o_id = x)",
    "SELECT transform(xs, x -> x + o_id) AS t, date_format(day, 'yyyy') AS y FROM sales",
)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The commands that are sent to the JVM."""
    sent: list[str] = []
    send = JavaClient.send_command

    def noted(client: JavaClient, command: str, *options: object, **more: object) -> object:
        if not command.startswith(MEMORY_COMMAND_NAME):  # sent whenever Python collects garbage
            sent.append(command)
        return send(client, command, *options, **more)

    with monkeypatch.context() as patched:
        patched.setattr(JavaClient, "send_command", noted)
        yield sent


@pytest.mark.slow
def test_lifting_takes_few_calls(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session = clone(spark)
    session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    dataset, texts = generate(0.01, suite="tpcds"), query_texts("tpcds")
    tables = {name: session.read.parquet(f"file:{dataset.file(name)}").schema for name in dataset.tables}
    compiled(session, "Tree")
    calls = {}
    for name in ("q4", "q5", "q9", "q14", "q64"):
        with counted(monkeypatch) as sent:
            lift_sql(session, texts[name], tables)
        calls[name] = len(sent)
    assert {name: n for name, n in calls.items() if n > MOST_CALLS} == {}


def test_declared_tables_that_are_not_read_cost_no_calls(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def calls(declared: int) -> int:
        tables = {"sales": schemas()["sales"], **{f"t{i}": schemas()["returns"] for i in range(declared)}}
        lift_sql(spark, "SELECT cat FROM sales", tables)
        with counted(monkeypatch) as sent:
            lift_sql(spark, "SELECT cat FROM sales", tables)
        return len(sent)

    assert calls(0) == calls(30)


def test_the_size_of_an_expression_costs_no_calls(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def calls(terms: int) -> int:
        sql = f"SELECT o_id FROM sales WHERE {' OR '.join(f'(qty > {i} AND f < {i})' for i in range(terms))}"
        with counted(monkeypatch) as sent:
            lift_small(spark, sql)
        return len(sent)

    assert calls(1) == calls(40)


def test_a_long_answer_does_not_wait_for_an_acknowledgement(spark: SparkSession) -> None:
    lift_small(spark, STATEMENTS[0])
    gateway: Any = spark.sparkContext._gateway
    server = gateway.java_gateway_server
    assert server.getCallbackClient().getPerThreadConnection().getSocket().getTcpNoDelay()


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_node_is_what_calls_show(spark: SparkSession, sql: str) -> None:
    work = clone(spark)
    with active(work):
        for name, schema in schemas().items():
            schema_leaf(work, name, schema).createOrReplaceTempView(name)
        plan = optimise(work, analyse_sql(work, sql))
        tree = Tree(work)
        assert tree.node(plan) is tree.node(plan)
        assert same(tree.node(plan), plan) > 5


def same(node: Node, shown: JavaObject) -> int:
    """How many nodes were compared."""
    assert node.handle.get() is not None
    assert node.handle.get().equals(shown)
    assert node.name == class_of(shown)
    compared = 1
    if node._type:
        assert node.type == shown.dataType().catalogString()
    if node.id >= 0:
        assert node.id == shown.exprId().id()
    for i, argument in enumerate(each(shown.productElementNames().toSeq())):
        compared += same_value(node[argument], shown.productElement(i)) if argument in TOLD else 0
    children = list(each(shown.children()))
    return compared + sum(map(same, node.children, children)) if len(node.children) == len(children) else -1000


TOLD = (
    "condition",
    "filter",
    "projectList",
    "aggregateExpressions",
    "aggregateFunction",
    "isDistinct",
    "value",
    "escapeChar",
    "global",
)


def same_value(told: object, shown: object) -> int:
    if isinstance(told, Node):
        return same(told, shown)
    if isinstance(told, Some):
        return same_value(told.value, shown.get())  # type: ignore[attr-defined]
    if isinstance(told, list):
        return sum(map(same_value, told, each(shown)))
    if told is None or isinstance(told, bool | int):
        assert told == shown
    else:
        assert str(told) == (str(shown) if isinstance(shown, str | float) else str(shown.toString()))  # type: ignore[attr-defined]
    return 1
