"""Rows net of deletions, where few rows of many are deleted: only rows like the deleted ones are put together, the others stay as they
are. To group all rows takes as long as to shuffle them; to see which are like a deleted one takes a look into a small hash table."""

from collections.abc import Sequence

from tempura.algebra.scalar import Column
from tempura.execute import functions as fn
from tempura.execute.contract import WEIGHT
from tempura.execute.identity import consolidate, is_exact
from tempura.execute.naming import attribute, ids
from tempura.execute.relation import Relation

_HASH, _TAKEN = "_hash", "_taken"


def net(rows: Relation, columns: Sequence[Column]) -> Relation:
    """A weighted relation with one entry per distinct row that is like a deleted one; all others have positive weights as they are. Raises
    as :func:`~tempura.execute.identity.consolidate` does. The rows that are left, if these can be told otherwise."""
    if rows.clean is not None:
        return Relation(rows.clean().select(*ids(columns)), weighted=False)
    hashed = [attribute(column.id) for column in columns if is_exact(column.type) and column.type != "void"]
    if rows.taken is None or not hashed:
        return Relation(consolidate(rows.draft, columns), weighted=True)
    # Rows that are identical have the same hash; others that happen to have it are grouped as well, which changes nothing.
    key = fn.xxhash64(*hashed)
    taken = rows.taken.select(key.alias(_TAKEN)).broadcast()
    marked = rows.draft.extended(key.alias(_HASH))
    is_like = attribute(_HASH) == attribute(_TAKEN)
    alike, others = (
        marked.join(taken, is_like, kind).select(*ids(columns), WEIGHT) for kind in ("left_semi", "left_anti")
    )
    return Relation(others.union(consolidate(alike, columns)), weighted=True)
