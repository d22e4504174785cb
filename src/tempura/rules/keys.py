"""What a semi, anti or existence join asks where its condition is nothing but equalities: which keys its right side has. These are a set,
which changes more rarely than the rows, and is smaller."""

from tempura.algebra.failing import EQUATIONS, can_fail
from tempura.algebra.scalar import Call, Column, Expr, Output, Ref, conjunction, conjuncts
from tempura.algebra.sql_order import equality_is_identity
from tempura.rules.dsl import LOGICAL, AnyMarker, Expected, How, On, Rewrite, Rule, rewrite, rule
from tempura.rules.eager import SPLITS
from tempura.rules.reduce import ASKED_FOR
from tempura.tvr.tvr import Tvr


class ByKeys:
    """``L ⋉ R`` by the ``distinct`` keys of R, if these ``exist``, that L is to have by an ``on`` of their columns."""

    def __init__(self, L: Tvr, R: Tvr, on: Expr) -> None:
        equations = _equations(on, L, R)
        keys = {y: _key(f"{i}.key", y.type, L.columns) for i, (_, _, y) in enumerate(equations)}
        self.exist = bool(keys) and not can_fail(on) and all(equality_is_identity(key.type) for key in keys)
        self.values = tuple(keys)
        self.distinct = R.aggregate(tuple(Output(column, key) for key, column in keys.items()), ())
        self.on = conjunction(*(Call(equality, (x, Ref(keys[y])), "boolean") for equality, x, y in equations))
        own = tuple(Output(c, Ref(c)) for c in L.columns)
        self.matching = L.join(self.distinct, self.on).project(own)
        """The rows of L that match."""


def _key(id: str, type: str, others: tuple[Column, ...]) -> Column:
    """A column that is none of others: L may be keys itself."""
    while any(other.id == id for other in others):
        id += "'"
    return Column(id, "key", type)


def _equations(on: Expr, L: Tvr, R: Tvr) -> tuple[tuple[str, Expr, Expr], ...]:
    """The equations of which a condition is made: which equality, and the expressions over L and over R. None of them when it says
    anything else."""
    found: list[tuple[str, Expr, Expr]] = []
    for part in conjuncts(on):
        if not isinstance(part, Call) or part.function not in EQUATIONS:
            return ()
        a, b = part.operands
        sides = [(x, y) for x, y in ((a, b), (b, a)) if _reads(x, L) and _reads(y, R)]
        found += [(part.function, *sides[0])] if sides else []
        if not sides:
            return ()
    return tuple(found)


def _reads(expr: Expr, R: Tvr) -> bool:
    return bool(expr.columns) and expr.reads_only(R.columns)


@rule(LOGICAL, cite=(4, 5), undoes=(*ASKED_FOR, *SPLITS, "push_semi_join_into_aggregate"))
def look_up_distinct_keys(L: Tvr, R: Tvr, how: How, on: On, marker: AnyMarker, expected: Expected) -> Rewrite:
    """L ⋉ R = L ⋉ keys(R)      keys(R): the distinct values that L is compared with; the same for ▷ and ∃

    When on has nothing but equalities. Only where keys are far fewer than rows: so few are then sent, where all rows would be.
    """
    keys = ByKeys(L, R, on)
    columns = tuple(value.column for value in keys.values if isinstance(value, Ref))
    fits = how in ("semi", "anti", "exists") and keys.exist and len(columns) == len(keys.values)
    return rewrite(
        L.join(R, on, how, marker),
        L.join(keys.distinct, keys.on, how, marker),
        where=fits and expected.shrinks(R, columns),
    )


KEYS: tuple[Rule, ...] = (look_up_distinct_keys,)
