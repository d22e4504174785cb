"""What Spark's functions compute survives the way through the algebra, or has a reason that is pinned here."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.canonical import fingerprint
from tempura.errors import TempuraError
from tempura.frontend.catalyst import analyse_sql
from tempura.frontend.lift import lift_sql
from tempura.frontend.session import active, clone
from tests.spark import functions
from tests.spark.functions import expressions
from tests.spark.roundtrip import result

NEWEST = "4.3"
"""The Spark version that knows all of the functions."""

FAIL_BEFORE = ("corr(i, id)",)
"""Spark 4.0 by itself divides by zero here, in ANSI mode."""

REASONS = {
    "COLLATED_GROUPING": ["max(s COLLATE UTF8_LCASE)"],
    "TYPE_TEXT": ["arrays_zip(xs, array('a'))"],
    "UNCOMPARABLE_TYPE": ["map(id, s)", "parse_json('1')", "make_interval(1, id)", "transform_values(map('a', id), (k, v) -> v + 1)"],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """A session of its own, where no expression is compiled, and the table ``t``."""

    session: SparkSession
    t: DataFrame

    def known(self, texts: list[str], group: str = "") -> list[str]:
        """Those of some expressions that this version of Spark has: all of them, if it is the newest."""
        found = [text for text in texts if self._is_known(f"SELECT {text} AS x FROM t {group}")]
        if self.session.version.startswith(NEWEST):
            assert found == texts
            return found
        return [text for text in found if text not in FAIL_BEFORE]

    def _is_known(self, sql: str) -> bool:
        try:
            with active(self.session):
                analyse_sql(self.session, sql)
        except TempuraError as error:
            return error.code != "UNKNOWN_FUNCTION"
        return True


@pytest.fixture(scope="module", params=["true", "false"], ids=["ansi", "legacy"])
def world(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[World]:
    session = clone(spark)
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    session.conf.set("spark.sql.ansi.enabled", request.param)
    t = session.sql(functions.DATA).localCheckpoint()
    t.createOrReplaceTempView("t")
    yield World(session, t)
    session.catalog.dropTempView("t")


def wrong(world: World, texts: list[str], group: str) -> dict[str, tuple[object, object]]:
    """The expressions whose values differ, with the values of a row: from the algebra, and Spark's."""
    columns = ", ".join(f"{text} AS x{i}" for i, text in enumerate(texts))
    sql = f"SELECT {group}, {columns} FROM t" + (" GROUP BY g" if group == "g" else "")
    lifted = lift_sql(world.session, sql, {"t": world.t.schema})
    assert not lifted.reasons
    again = lift_sql(world.session, sql, {"t": world.t.schema})
    assert fingerprint(again.rel) == fingerprint(lifted.rel), "nothing that Catalyst numbers anew each time may count"
    computed, expected = result(world.session, lifted, {"t": world.t}), world.session.sql(sql)
    assert [type for _, type in computed.dtypes] == [type for _, type in expected.dtypes]
    pairs = list(zip(*(sorted(map(_shown, df.collect())) for df in (computed, expected)), strict=True))
    return {text: (g[i], w[i]) for g, w in pairs for i, text in enumerate(texts, 1) if g[i] != w[i]}


def _shown(row: tuple[object, ...]) -> tuple[str, ...]:
    """A row's values as texts, which tell -0.0 from 0.0 and compare NaN and NULL."""
    return tuple(map(repr, row))


@pytest.mark.parametrize("name", ["TEXT", "NUMBERS", "TIMES", "COLLECTIONS", "AGGREGATES", "ORDER_SENSITIVE"])
def test_a_function_comes_back(world: World, name: str) -> None:
    group = "g" if name in ("AGGREGATES", "ORDER_SENSITIVE") else "id"
    texts = world.known(expressions(getattr(functions, name)), "GROUP BY g" if group == "g" else "")
    assert wrong(world, texts, group) == {}


@pytest.mark.parametrize("code", REASONS)
def test_what_is_recomputed_says_why(world: World, code: str) -> None:
    group = " GROUP BY g" if code == "COLLATED_GROUPING" else ""
    texts = world.known(REASONS[code], group)
    lifted = [lift_sql(world.session, f"SELECT {text} AS x FROM t{group}", {"t": world.t.schema}) for text in texts]
    assert [(text, [r.code for r in q.reasons]) for text, q in zip(texts, lifted, strict=True)] == [
        (text, [code]) for text in texts
    ]
