"""Joins run over changes: symmetric hash joins, which keep both inputs by their keys (Thrifty Query Execution via
Incrementability, 3.1.2, physical design of join operators)."""

from collections import Counter
from collections.abc import Callable

from tempura.algebra.bag import Row
from tempura.algebra.one import TOO_MANY_ROWS
from tempura.algebra.rel import Join
from tempura.algebra.scalar import Call, conjunction, conjuncts
from tempura.algebra.sql_order import ordering_key
from tempura.algebra.states import decimal_of
from tempura.cost.conditions import split_equalities
from tempura.errors import TempuraError
from tempura.pace.rowwise import RowFunction, function_of, test_of
from tempura.pace.run_linear import Change, Running

Kept = dict[object, dict[Row, int]]
"""Rows with weights by key."""

_NO_ROWS: dict[Row, int] = {}


class Joining(Running):
    """A join of any kind. ``_matches[side]`` counts, for the rows of a side that come out alone where they match
    nothing, the rows that match each."""

    def __init__(self, rel: Join) -> None:
        self._kind = rel.kind
        self._widths = len(rel.left.columns), len(rel.right.columns)
        pairs, rest = split_equalities(rel)
        safe = [_is_null_safe(rel, i) for i in range(len(pairs))]
        sides = zip(*pairs, strict=True) if pairs else ((), ())
        functions = [
            [function_of(e, input.columns) for e in exprs] for exprs, input in zip(sides, rel.inputs, strict=True)
        ]
        plain = all(_is_plain(expr.type) for pair in pairs for expr in pair)
        self._keys = tuple(_key_of(own, safe, plain) for own in functions)
        columns = rel.left.columns + rel.right.columns
        condition = conjunction(*rest)
        self._always = not conjuncts(condition) and not rest
        self._test = test_of(condition, columns)
        self._kept: tuple[Kept, Kept] = ({}, {})
        self._matches: tuple[dict[Row, int], dict[Row, int]] = ({}, {})
        self.pairs = 0
        """Pairs of rows that match now."""
        self._alone = {"inner": (False, False), "full": (True, True)}.get(rel.kind, (True, False))

    def apply(self, *changes: Change) -> Change:
        touched: tuple[dict[Row, tuple[int, int]], dict[Row, tuple[int, int]]] = ({}, {})
        out: Change = []
        for side, change in enumerate(changes):
            if change:
                self._side(side, change, touched, out)
        if self._kind == "single":
            self._refuse_second(touched[0])
        for side in (0, 1):
            if self._alone[side]:
                self._settle(side, touched[side], out)
        return out

    def numbers(self, side: int) -> Counter[int]:
        """How many rows of a side, of those that are kept track of, match so many rows."""
        found: Counter[int] = Counter()
        for row, count in self._matches[side].items():
            if count:
                found[count] += self._weight(side, row)
        return found

    def _side(self, side: int, change: Change, touched: tuple[dict[Row, tuple[int, int]], ...], out: Change) -> None:
        """Join the change of one side with what is kept of the other, and keep it."""
        key_of, own, other = self._keys[side], self._kept[side], self._kept[1 - side]
        pairs = self._kind in ("inner", "left", "full", "single")
        alone, other_alone = self._alone[side], self._alone[1 - side]
        for row, weight in change:
            if alone:
                self._note(side, row, touched[side])
            key = key_of(row)
            found = other.get(key, _NO_ROWS) if key is not None else _NO_ROWS
            count = 0
            for match, times in found.items():
                both = row + match if side == 0 else match + row
                if self._always or self._test(both):
                    count += times
                    self.pairs += weight * times
                    if pairs:
                        out.append((both, weight * times))
                    if other_alone:
                        self._note(1 - side, match, touched[1 - side])
                        self._matches[1 - side][match] += weight
            self._keep(own, key, row, weight)
            if alone:
                self._matches[side][row] = count

    def _keep(self, own: Kept, key: object, row: Row, weight: int) -> None:
        rows = own.setdefault(key, {})
        rows[row] = rows.get(row, 0) + weight
        if not rows[row]:
            del rows[row]
            if not rows:
                del own[key]

    def _note(self, side: int, row: Row, touched: dict[Row, tuple[int, int]]) -> None:
        """Remember how often a row was there, and how many rows matched it, before this flush."""
        if row not in touched:
            touched[row] = self._weight(side, row), self._matches[side].get(row, 0)

    def _weight(self, side: int, row: Row) -> int:
        return self._kept[side].get(self._keys[side](row), _NO_ROWS).get(row, 0)

    def _settle(self, side: int, touched: dict[Row, tuple[int, int]], out: Change) -> None:
        """What comes out because rows match something now, or nothing any more."""
        for row, (before, matched_before) in touched.items():
            now, matched = self._weight(side, row), self._matches[side].get(row, 0)
            if not now:
                self._matches[side].pop(row, None)
            old = {} if not before else self._lone(side, row, before, matched_before > 0)
            new = {} if not now else self._lone(side, row, now, matched > 0)
            for made in {**old, **new}:
                weight = new.get(made, 0) - old.get(made, 0)
                if weight:
                    out.append((made, weight))

    def _lone(self, side: int, row: Row, weight: int, is_matched: bool) -> dict[Row, int]:
        """What a row contributes by itself, beside the pairs."""
        match self._kind:
            case "semi":
                return {row: weight} if is_matched else {}
            case "anti":
                return {} if is_matched else {row: weight}
            case "exists":
                return {(*row, is_matched): weight}
        if is_matched:
            return {}
        nulls = (None,) * self._widths[1 - side]
        return {row + nulls if side == 0 else nulls + row: weight}

    def _refuse_second(self, touched: dict[Row, tuple[int, int]]) -> None:
        for row in touched:
            if self._matches[0].get(row, 0) > 1 and self._weight(0, row):
                what = f"a scalar sub-query has {self._matches[0][row]} rows."
                raise TempuraError(
                    TOO_MANY_ROWS, what, "Let it give one row, for instance with an aggregate or LIMIT 1."
                )


def _is_null_safe(rel: Join, i: int) -> bool:
    """Whether the pair of a join's condition is equated so that NULL equals NULL."""
    pairs = split_equalities(rel)[0]
    for part in conjuncts(rel.on):
        if isinstance(part, Call) and part.function == "EqualNullSafe" and set(part.operands) == set(pairs[i]):
            return True
    return False


def _is_plain(type: str) -> bool:
    return type in ("tinyint", "smallint", "int", "bigint", "date", "string", "boolean") or decimal_of(type) is not None


def _key_of(functions: list[RowFunction], safe: list[bool], plain: bool) -> Callable[[Row], object]:
    """The key by which a row is kept; None for a row that equals nothing, for one of its values is NULL."""
    if not functions:
        return lambda row: ()
    if len(functions) == 1 and plain and not safe[0]:
        return functions[0]

    def key(row: Row) -> object:
        values = tuple(function(row) for function in functions)
        if any(value is None and not null_safe for value, null_safe in zip(values, safe, strict=True)):
            return None
        return values if plain else tuple(map(ordering_key, values))

    return key
