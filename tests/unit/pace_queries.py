"""Queries over ``sales`` (item, price) and ``items`` (item, group), for tests of paces."""

from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Rel, Scan, TopK
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, SortKey, equal
from tempura.cost.stats import ColumnStats, TableFacts

ITEM, PRICE = Column("s1", "item", "int"), Column("s2", "price", "bigint")
NAME, GROUP = Column("i1", "item", "int"), Column("i2", "group", "int")
SALES = Scan("sales", ("item", "price"), (ITEM, PRICE))
ITEMS = Scan("items", ("item", "group"), (NAME, GROUP))
TOTAL, COUNT = Column("t", "total", "bigint"), Column("n", "n", "bigint")
COLUMNS = {"sales": ("item", "price"), "items": ("item", "group")}


def summed(rel: Rel, key: Column, to: Column = TOTAL) -> Aggregate:
    """SUM of prices by a key."""
    call = AggregateCall("Sum", (Ref(PRICE),), "bigint", detail="legacy")
    return Aggregate(rel, (Output(key.primed(), Ref(key)),), (AggregateOutput(to, call),))


def counted(rel: Rel, *keys: Column) -> Aggregate:
    """COUNT(*) by keys."""
    call = AggregateOutput(COUNT, AggregateCall("Count", (), "bigint"))
    return Aggregate(rel, tuple(Output(key.primed(), Ref(key)) for key in keys), (call,))


def joined(kind: JoinKind = "inner") -> Join:
    """Items with their sales."""
    return Join(ITEMS, SALES, kind, equal(Ref(NAME), Ref(ITEM)), COUNT if kind == "exists" else None)


def per_item(least: int = 100) -> Rel:
    """How many items of each group have sold for at least so much: an aggregation joined with a table, as the paper's Q_AggJoin."""
    totals = summed(SALES, ITEM)
    rich = Filter(totals, Call("GreaterThanOrEqual", (Ref(TOTAL), Literal(least, "bigint")), "boolean"))
    return counted(Join(ITEMS, rich, "inner", equal(Ref(NAME), Ref(totals.columns[0]))), GROUP)


def dearest() -> Rel:
    """The three items that sold best."""
    totals = summed(SALES, ITEM)
    return TopK(totals, (SortKey(Ref(TOTAL), ascending=False),), 3)


def facts(sales: int, items: int) -> dict[str, TableFacts]:
    """Tables of which every sale is of one of the items."""
    return {
        "sales": TableFacts(
            (sales,), (0,), 1, columns={"item": ColumnStats(items), "price": ColumnStats(50, 0, 1, 50)}
        ),
        "items": TableFacts((items,), (0,), 1, columns={"item": ColumnStats(items), "group": ColumnStats(4)}),
    }
