"""Fifty steps of inserts, deletes and updates: exact after each, states bounded, and a step writes about as much as has changed."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from tempura.algebra.rel import Aggregate, Join, JoinKind, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref, equal
from tempura.algebra.window import Window, WindowOutput
from tempura.cost.estimate import Estimator
from tempura.cost.model import CostModel
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit import bag_engine
from tests.unit.bag_engine import BagEngine, Row, columns_of, summary_rel

STEPS = 50


class NestedLoops(CostModel):
    """What joins cost in the interpreter: each row of one side meets each of the other. So incremental work pays for few rows too."""

    def operator(self, rel: Rel, estimate: Estimator) -> int:
        if isinstance(rel, Join):
            return round(2_000 * estimate.rows(rel.left) * estimate.rows(rel.right))
        return super().operator(rel, estimate)


PRICES = NestedLoops(node=0, scan=20, file=20, job=0, exchange=0)


def joined(kind: JoinKind) -> Join:
    summary = summary_rel()
    assert isinstance(summary, Aggregate)
    assert isinstance(summary.input, Join)
    return replace(summary.input, kind=kind)


def inner() -> Rel:
    summary = summary_rel()
    assert isinstance(summary, Aggregate)
    return replace(summary, input=joined("inner"))


def outer() -> Rel:
    """Each sale with what came back of it: below the result is a state of nearly as many groups as there are sales."""
    summary, rows = summary_rel(), joined("left")
    assert isinstance(summary, Aggregate)
    return replace(summary, input=rows, keys=(Output(Column("o", "o", "int"), Ref(rows.columns[0])),))


def window() -> Rel:
    """Each joined row with the total of its category."""
    rows = joined("inner")
    _, cat, price = rows.columns[:3]
    total = WindowOutput(Column("w", "w", "bigint"), AggregateCall("Sum", (Ref(price),), "bigint", detail="ansi"))
    return Window(rows, (Ref(cat),), (), (total,))


def over() -> Rel:
    """How many categories have the same number of returns: over the results of the first view."""
    cat, _, back = columns = columns_of("v", ("cat", "string"), ("total", "bigint"), ("back", "bigint"))
    count = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (Ref(cat),), "bigint"))
    return Aggregate(Scan("totals", ("cat", "total", "back"), columns), (Output(back, Ref(back)),), (count,))


VIEWS = {"inner": inner, "outer": outer, "window": window, "over": over}


@dataclass
class Shop:
    """Two managed tables whose rows are inserted, deleted and updated at random."""

    wh: Warehouse
    random: Random
    rows: dict[str, list[Row]]
    key: int = 0

    def order(self) -> Row:
        self.key += 1
        return (self.key, f"c{self.random.randrange(6)}", self.random.randrange(100))

    def back(self) -> Row:
        return (self.random.randint(max(1, self.key - 60), self.key), self.random.randrange(20))

    def fill(self) -> None:
        self.apply("sales", [self.order() for _ in range(80)], [])
        self.apply("returns", [self.back() for _ in range(80)], [])

    def churn(self) -> None:
        """A row comes, one goes, and one gets another key."""
        for table, make in (("sales", self.order), ("returns", self.back)):
            gone = self.random.sample(self.rows[table], 2)
            moved = (gone[1][0] + 1, *gone[1][1:])  # type: ignore[operator]
            self.apply(table, [make(), moved], gone)

    def apply(self, table: str, inserts: list[Row], deletes: list[Row]) -> None:
        changes = [(*r, "insert") for r in inserts] + [(*r, "delete") for r in deletes]
        self.wh.table(table).apply(changes)  # type: ignore[arg-type]
        for row in deletes:
            self.rows[table].remove(row)
        self.rows[table] += inserts


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(bag_engine, "QUERIES", VIEWS)
    wh = open_site(tmp_path / "wh", BagEngine(prices=PRICES), Files(), lambda: datetime(2026, 3, 1, tzinfo=UTC))
    wh.add_table("sales", schema="o_id INT, cat STRING, price INT")
    wh.add_table("returns", schema="o_id INT, cost INT")
    return Shop(wh, Random(7), {"sales": [], "returns": []})


def declared(wh: Warehouse) -> dict[str, Query]:
    queries = {name: wh.add_query(name, name, schedule=Schedule.view()) for name in ("inner", "outer", "window")}
    wh.add_table("totals", query="inner")
    return queries | {"over": wh.add_query("over", "over", schedule=Schedule.view())}


@pytest.mark.slow
def test_views_under_churn(shop: Shop) -> None:
    shop.fill()
    engine = shop.wh._site.engine
    assert isinstance(engine, BagEngine)
    written: dict[str, list[int]] = {name: [] for name in VIEWS}
    stored: dict[str, list[int]] = {name: [] for name in VIEWS}
    parts: dict[str, list[int]] = {name: [] for name in VIEWS}
    queries: dict[str, Query] = {}
    for step in range(STEPS):
        if step:
            shop.churn()
        for name in VIEWS:
            if name not in queries:
                queries |= declared(shop.wh) if not queries else {}
            before = len(engine.written)
            queries[name].run(methods="im1")
            assert queries[name].verify(), (name, step)
            written[name].append(sum(engine.written[before:]))
            states = queries[name].steps()[-1].states
            stored[name].append(sum(s.stored.rows for s in states))
            parts[name].append(max((len(s.stored.parts) for s in states), default=0))
        if step % 10 == 9:
            shop.wh.gc()
        live = max(len(shop.rows["sales"]), len(shop.rows["returns"]))
        assert all(rows[-1] < 8 * live for rows in stored.values()), "states are bounded"
    for name, rows in written.items():
        early, late = sum(rows[5:20]), sum(rows[35:50])
        assert late < 1.5 * early + 50, f"{name}: {rows}"
    assert max(parts["outer"]) > 2, "deltas were appended"
    assert min(parts["outer"][5:]) < max(parts["outer"][5:]), "and parts were merged"


def sums() -> Rel:
    """Sales with the sum of what came back, which is computed once while nothing comes back."""
    returns = columns_of("r", ("o_id", "int"), ("cost", "int"))
    sales = columns_of("s", ("o_id", "int"), ("cat", "string"), ("price", "int"))
    total = AggregateOutput(
        Column("back", "back", "bigint"), AggregateCall("Sum", (Ref(returns[1]),), "bigint", detail="ansi")
    )
    key = Column("key", "o_id", "int")
    back = Aggregate(Scan("returns", ("o_id", "cost"), returns), (Output(key, Ref(returns[0])),), (total,))
    return Join(Scan("sales", ("o_id", "cat", "price"), sales), back, "inner", equal(Ref(sales[0]), Ref(key)))


def test_what_stays_as_it_was_is_kept_with_what_changes(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that save something else keep it as well, in the files that the first one wrote, and ``gc`` leaves them."""
    monkeypatch.setattr(bag_engine, "QUERIES", VIEWS | {"sums": sums})
    shop.fill()
    query = shop.wh.add_query("sums", "sums", schedule=Schedule.view())
    paths: list[set[str]] = []
    for _ in range(6):
        query.run(methods="im1")
        assert query.verify()
        paths.append({part.path for state in query.steps()[-1].states for part in state.stored.parts})
        shop.wh.gc()
        shop.apply("sales", [shop.order(), (shop.random.randint(1, 80), "c1", 5)], [])
    first = {state.label: state for state in query.steps()[0].states}
    (total,) = first["agg(returns).state"].stored.parts
    assert all(total.path in found for found in paths)
    assert paths[0] != paths[1] != paths[2], "the join grows"
