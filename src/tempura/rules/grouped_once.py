"""Groups of the same rows under different conditions, found once.

    γ_K(σ_p R) = σ_p C      γ_K(σ_q R) = σ_q C      where C = γ_K(σ_{p ∨ q} R), and p and q are asked of what R is grouped by

A query that compares its groups of one year with those of the next, or of three quarters, uses one sub-query for each; Catalyst pushes what
each use asks into a sub-query of its own, and nothing of these is shared. What they have in common (:mod:`tempura.rules.common`) has one
state, and each change is looked at once. The law holds at all times, and the right side is seldom dearer; so a query is rewritten by it
before it is planned (:func:`grouped_once`), and is explored once, too.
"""

from collections.abc import Iterator

from tempura.algebra.canonical import fingerprint
from tempura.algebra.rel import Aggregate, Project, Rel, scans, where
from tempura.algebra.scalar import Output, conjunction
from tempura.rules.common import Common, common

Group = tuple[Aggregate, ...]


def grouped_once(query: Rel) -> Rel:
    """A query in which groups of the same rows are found once: those who read them read one relation."""
    known: dict[Rel, Rel] = {}
    for group, found in _alike(query):
        known |= zip(group, _seen(group, found), strict=True)
    return _replaced(query, known) if known else query


def _alike(query: Rel) -> list[tuple[Group, Common]]:
    """The aggregations of a query that have something in common, and what; the largest first, and nothing below them again."""
    groups: list[tuple[Group, Common | None]] = []
    below: set[Rel] = set()
    for rel in query.walk():
        if isinstance(rel, Aggregate) and rel.keys and rel not in below:
            below.update(rel.walk())
            for number, (group, _) in enumerate(groups):
                if _tables(group[0]) == _tables(rel) and (found := common((*group, rel))):
                    groups[number] = ((*group, rel), found)
                    break
            else:
                groups.append(((rel,), None))
    return [(group, found) for group, found in groups if found and _differ(group) and _names_are_apart(found.rel)]


def _tables(rel: Rel) -> frozenset[str]:
    return frozenset(scan.table for scan in scans(rel))


def _differ(group: Group) -> bool:
    """Whether not all are the same but for names: then they are one anyway."""
    return len(set(map(fingerprint, group))) > 1


def _names_are_apart(rel: Rel) -> bool:
    """Whether no two columns of a relation have one name, as those of two uses of one relation may."""
    return all(len(part.column_set) == len(part.columns) for part in rel.walk())


def _seen(group: Group, found: Common) -> Iterator[Rel]:
    """What each of some aggregations is of what they have in common."""
    for rel, kept, values in zip(group, found.kept, found.values, strict=True):
        yield Project(
            where(found.rel, conjunction(*kept)), tuple(Output(column, values[column]) for column in rel.columns)
        )


def _replaced(query: Rel, known: dict[Rel, Rel]) -> Rel:
    """A query with other relations in place of parts of it."""
    if query not in known:
        known[query] = query.with_inputs(*(_replaced(input, known) for input in query.inputs))
    return known[query]
