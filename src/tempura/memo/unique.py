"""Which columns of a class no two rows agree in, at any time: what the operators that compute it say of their form."""

from collections.abc import Mapping

from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Sort, TopK
from tempura.algebra.scalar import Column, Ref
from tempura.memo.edge import Edge
from tempura.memo.memo import AnyMember, Memo
from tempura.tvr.tvr import Tvr

_NO_KEYS: Mapping[str, tuple[str, ...]] = {}


class Unique:
    """Implements ``rules.dsl.Always``: any member of a class proves it. ``keys``: the columns of tables in which no two rows agree, where
    that is certain."""

    def __init__(self, memo: Memo, keys: Mapping[str, tuple[str, ...]] = _NO_KEYS) -> None:
        self._any_member = AnyMember(memo)
        self._keys = keys

    def is_unique(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether no two rows have the same values in some columns."""
        return self._is_unique(tvr.rel, frozenset(columns))

    def _is_unique(self, rel: Rel, columns: frozenset[Column]) -> bool:
        match rel:
            case Edge():
                named = [column for column in rel.columns if column in columns]
                return self._any_member.proves(rel, named, lambda own, of: self._is_unique(own, frozenset(of)))
            case One():
                return True
            case Scan():
                key, names = self._keys.get(rel.table, ()), dict(zip(rel.columns, rel.fields, strict=True))
                return bool(key) and {names[column] for column in columns} >= set(key)
            case Aggregate():
                return columns >= {key.column for key in rel.keys}
            case Filter() | Sort() | TopK() | Join(kind="semi" | "anti" | "exists"):
                return self._is_unique(rel.inputs[0], columns)
            case Project():
                kept = {o.expr.column for o in rel.outputs if o.column in columns and isinstance(o.expr, Ref)}
                return self._is_unique(rel.input, frozenset(kept))
            case Join():
                return all(self._is_unique(side, columns & side.column_set) for side in rel.inputs)
        return False
