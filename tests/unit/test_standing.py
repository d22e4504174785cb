"""What is seen without a table, where classes have many members that lead to the same ones."""

from tempura.algebra.rel import Join, Rel, Scan
from tempura.algebra.scalar import Ref, equal
from tempura.memo.memo import Memo
from tempura.search.standing import Standing
from tests.unit.test_memo import table, where

DEEP = 200


def read(memo: Memo, rel: Rel) -> frozenset[str]:
    return frozenset(leaf.table for leaf in memo.tree(rel).walk() if isinstance(leaf, Scan))


def test_each_class_is_looked_at_once() -> None:
    """There are two ways through each of many classes, one above the other: to go all of them would never end."""
    memo = Memo()
    left, right = table("r", "r"), table("s", "s")
    joined = Join(left, right, "left", equal(Ref(left.columns[0]), Ref(right.columns[0])))
    edge = memo.add(joined)
    for limit in range(DEEP):
        one, other = memo.add(where(edge, 2 * limit)), memo.add(where(edge, 2 * limit + 1))
        memo.merge(one, other)
        edge = memo.own(one)
    tables = {e.id: read(memo, e) for e in memo.classes}
    standing = Standing(memo, lambda rel: tables[memo.add(rel).id])
    columns = memo.own(edge).columns
    assert standing.is_seen_without("s", edge, frozenset(columns[:2]))
    assert not standing.is_seen_without("s", edge, frozenset(columns[2:]))
    assert not standing.is_seen_without("r", edge, frozenset(columns[:2]))


def test_a_class_proves_nothing_by_itself() -> None:
    memo = Memo()
    edge = memo.add(table("r", "r"))
    memo.merge(edge, memo.add(where(edge, 1)))
    own = memo.own(edge)
    standing = Standing(memo, lambda rel: frozenset({"r"}))
    assert not standing.is_seen_without("r", own, frozenset(own.columns))
