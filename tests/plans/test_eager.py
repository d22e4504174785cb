"""An aggregation is taken early of any relation among those that are joined, whichever two the text joins first."""

from itertools import permutations

import pytest

from tempura.algebra.rel import Aggregate, Join, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, equal
from tempura.cost.estimate import Estimator
from tempura.cost.stats import TableFacts
from tempura.memo.edge import Edge
from tempura.memo.memo import Memo
from tempura.physical.operators import Read
from tempura.rules.eager import split_aggregate_below_many
from tempura.search.saturate import Saturation
from tests.plans.test_few_rows import column, facts_of, recomputed

LAW = "split_aggregate_below_many"


def table(name: str, *columns: str) -> Scan:
    return Scan(name, columns, tuple(Column(f"{name}.{column}", column, "int") for column in columns))


OFFERS, LINES, ORDERS = table("offers", "offered"), table("lines", "sold", "line_of"), table("orders", "id")


def offers_of_what_was_sold(offers: int, orders: int) -> tuple[Rel, dict[str, TableFacts]]:
    """How many offers there are of what was ordered, a line each time, and how the tables are: of a million parts, and 30,000 orders those
    of which some are asked for. The text joins offers and lines first."""
    sold = Join(OFFERS, LINES, "inner", equal(column(OFFERS, "offered"), column(LINES, "sold")))
    ordered = Join(sold, ORDERS, "inner", equal(column(sold, "line_of"), column(ORDERS, "id")))
    count = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint"))
    facts = {
        "offers": facts_of(offers, offered=1_000_000),
        "lines": facts_of(30_000_000, sold=1_000_000, line_of=30_000),
        "orders": facts_of(orders, id=orders),
    }
    return Aggregate(ordered, (), (count,)), facts


def read(rel: Rel) -> set[str]:
    return {part.scan.table for part in rel.walk() if isinstance(part, Read)}


def test_lines_are_reduced_by_orders_before_they_meet_counts_of_offers() -> None:
    """Without the law it is either: 60 million pairs of a line and an offer, or 30 million lines that meet counts."""
    query, facts = offers_of_what_was_sold(offers=20_000_000, orders=3_000)
    step = recomputed(query, facts)
    (count,) = (rel for rel in step.operators if isinstance(rel, Aggregate) and read(rel) == {"offers"})
    assert len(count.keys) == 1
    assert {"lines", "orders"} in [read(rel) for rel in step.operators if isinstance(rel, Join)]
    assert step.cost < 0.9 * recomputed(query, facts, LAW).cost


def test_not_where_offers_are_as_many_as_parts() -> None:
    query, facts = offers_of_what_was_sold(offers=1_000_000, orders=3_000)
    assert recomputed(query, facts).cost == recomputed(query, facts, LAW).cost


@pytest.mark.parametrize("order", list(permutations(("returns", "sales", "others"))))
def test_where_only_groups_are_asked_for_all_that_have_few_are_grouped_at_once(order: tuple[str, ...]) -> None:
    """Which orders were sold and came back: of three tables by order, once, in whatever order they are joined. One by one there would be
    seven ways."""
    first, second, third = (table(name, "order") for name in order)
    on = equal(column(first, "order"), column(second, "order"))
    both = Join(first, second, "inner", on)
    joined = Join(both, third, "inner", equal(column(first, "order"), column(third, "order")))
    key = column(third, "order")
    query = Aggregate(joined, (Output(key.column.primed(), key),), ())
    memo = Memo()
    top = memo.add(query)
    facts = {name: facts_of(1_000_000, order=1_000) for name in order}
    found = Saturation(memo, (split_aggregate_below_many,), Estimator(facts, memo.representative))
    assert found.run()
    assert found.fired == 1

    def grouped(rel: Rel) -> list[str]:
        """The tables that are grouped below what computes a class."""
        member = memo.members(rel)[-1].rel if isinstance(rel, Edge) else rel
        inputs = [input for input in member.inputs if isinstance(input, Edge)]
        below = [part.rel for input in inputs for part in memo.members(input)] if isinstance(member, Aggregate) else []
        own = [rel.table for rel in below if isinstance(rel, Scan)]
        return own + [name for input in inputs for name in grouped(input)]

    assert sorted(grouped(memo.find(top))) == sorted(order)
