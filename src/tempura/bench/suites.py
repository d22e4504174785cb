"""The benchmark suites: their fact tables, and what is known of these that a split into arrivals needs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from re import findall

from tempura.bench.views import VIEWS
from tempura.data.tpcds import Dataset, generate, query_texts
from tempura.errors import TempuraError


@dataclass(frozen=True, slots=True)
class Fact:
    """A table whose rows arrive over time. ``order`` is an SQL expression that is equal for rows that belong together; ``day`` gives
    the date on which a row comes into being, or NULL. Expressions may read the suite's other tables."""

    order: str
    day: str


@dataclass(frozen=True, slots=True)
class Suite:
    """A set of queries over generated tables. Tables that are not ``facts`` are there from the start. ``sales`` and ``returns`` are
    the facts of which rows may be deleted later; ``dated`` is the one whose days decide where a split by date cuts. ``keys`` and
    ``references`` are what its specification says of the tables, as far as it is so while they arrive together. ``data`` names the
    generator of its tables, and ``own`` are its queries where they are not the generator's."""

    name: str
    data: str
    facts: dict[str, Fact]
    sales: frozenset[str]
    returns: frozenset[str]
    dated: str
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    references: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    own: Mapping[str, str] | None = None

    @property
    def queries(self) -> dict[str, str]:
        """Its queries by name, in SQL that Spark reads with ``spark.sql.ansi.doubleQuotedIdentifiers``. Raises NO_GENERATOR as
        :func:`generate` does."""
        return query_texts(self.data) if self.own is None else dict(self.own)

    def tables(self, scale: float) -> Dataset:
        """Its tables at a scale. Raises as :func:`generate` does."""
        return generate(scale, suite=self.data)

    def deletable(self, pattern: str) -> frozenset[str]:
        """The tables of which rows are deleted under a pattern."""
        return {"retract-sales": self.sales, "retract-both": self.sales | self.returns}.get(pattern, frozenset())


def _by_date_key(column: str) -> str:
    return f"(SELECT d_date FROM date_dim WHERE d_date_sk = {column})"


_TPCDS = Suite(
    name="tpcds",
    data="tpcds",
    facts={
        "store_sales": Fact("ss_ticket_number", _by_date_key("ss_sold_date_sk")),
        "store_returns": Fact("sr_ticket_number", _by_date_key("sr_returned_date_sk")),
        "catalog_sales": Fact("cs_order_number", _by_date_key("cs_sold_date_sk")),
        "catalog_returns": Fact("cr_order_number", _by_date_key("cr_returned_date_sk")),
        "web_sales": Fact("ws_order_number", _by_date_key("ws_sold_date_sk")),
        "web_returns": Fact("wr_order_number", _by_date_key("wr_returned_date_sk")),
        "inventory": Fact(
            "(inv_item_sk, (SELECT d_week_seq FROM date_dim WHERE d_date_sk = inv_date_sk))",
            _by_date_key("inv_date_sk"),
        ),
    },
    sales=frozenset({"store_sales", "catalog_sales", "web_sales"}),
    returns=frozenset({"store_returns", "catalog_returns", "web_returns"}),
    dated="store_sales",
)

_TPCH = Suite(
    name="tpch",
    data="tpch",
    facts={
        "lineitem": Fact("l_orderkey", "l_shipdate"),
        "orders": Fact("o_orderkey", "o_orderdate"),
        "partsupp": Fact("(ps_partkey, ps_suppkey)", "CAST(NULL AS DATE)"),
    },
    sales=frozenset({"lineitem"}),
    returns=frozenset({"orders"}),
    dated="lineitem",
    keys={
        "region": ("r_regionkey",),
        "nation": ("n_nationkey",),
        "supplier": ("s_suppkey",),
        "customer": ("c_custkey",),
        "part": ("p_partkey",),
        "partsupp": ("ps_partkey", "ps_suppkey"),
        "orders": ("o_orderkey",),
        "lineitem": ("l_orderkey", "l_linenumber"),
    },
    # Lines refer to partsupp, too, which comes apart from them.
    references={
        "nation": {"n_regionkey": "region.r_regionkey"},
        "supplier": {"s_nationkey": "nation.n_nationkey"},
        "customer": {"c_nationkey": "nation.n_nationkey"},
        "partsupp": {"ps_partkey": "part.p_partkey", "ps_suppkey": "supplier.s_suppkey"},
        "orders": {"o_custkey": "customer.c_custkey"},
        "lineitem": {
            "l_orderkey": "orders.o_orderkey",
            "l_partkey": "part.p_partkey",
            "l_suppkey": "supplier.s_suppkey",
        },
    },
)

SUITES = {suite.name: suite for suite in (_TPCDS, _TPCH, replace(_TPCH, name="views", own=VIEWS))}
"""By name. TPC-H has no returns: its orders take their place. ``views``: other queries over its tables, with large results."""


def chosen(names: str, known: dict[str, str]) -> dict[str, str]:
    """The queries named by ``all`` or ``q1,q2``, in the suite's order. Raises TempuraError UNKNOWN_QUERY."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if wanted == ["all"]:
        return known
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        what = f"There is no query {unknown[0]!r}." if unknown else "No query is named."
        raise TempuraError("UNKNOWN_QUERY", what, f"Choose of {', '.join(known)}, or all.")
    return {name: text for name, text in known.items() if name in wanted}


def that_get_rows(texts: Mapping[str, str], suite: Suite, told: Callable[[str], None]) -> dict[str, str]:
    """The queries that read a table to which rows come; of each other is ``told`` that it is left out."""
    kept = {name: text for name, text in texts.items() if tables_named(text, suite.facts)}
    for name in (name for name in texts if name not in kept):
        told(f"{name}: left out, because no rows arrive in its tables")
    return kept


def tables_named(sql: str, tables: Iterable[str]) -> set[str]:
    """The tables whose names occur in a text."""
    return set(findall(r"\w+", sql.lower())) & set(tables)
