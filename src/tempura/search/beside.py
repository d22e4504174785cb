"""Aggregations of one class by the same keys: what the one computes, another may read."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from tempura.algebra.canonical import operator_text
from tempura.algebra.rel import Aggregate
from tempura.memo.edge import Edge
from tempura.memo.memo import Memo
from tempura.search.joins import over, through_projections


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregation, seen over what lies below projections, and the class that it computes."""

    home: Edge
    rel: Aggregate


def beside(memo: Memo) -> Iterator[tuple[Aggregation, Aggregation]]:
    """Pairs of aggregations of one class by the same keys, of two classes. Not without keys: there is one group to find."""
    groups: dict[tuple[int, str], list[Aggregation]] = {}
    for member in memo.made:
        if isinstance(member.rel, Aggregate) and member.rel.keys:
            source, values = through_projections(memo, member.rel.input)
            if isinstance(source, Edge):
                seen = Aggregation(Edge(member.home, member.rel.columns), over(member.rel, source, values))
                by = operator_text(replace(seen.rel, aggregates=()))
                groups.setdefault((memo.find(source).id, by), []).append(seen)
    for group in groups.values():
        for asked, computed in permutations(group, 2):
            if memo.find(asked.home).id != memo.find(computed.home).id:
                yield asked, computed
