"""Operators that pass rows on as they come, run over changes of rows: a change is a list of rows with weights, in
which nothing is cancelled, for operators in a pipeline do not wait for what would cancel."""

from collections.abc import Callable, Iterable, Sequence

from tempura.algebra.bag import EMPTY, Row, SignedBag
from tempura.algebra.evaluate import Evaluation
from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.rel import Filter, Project, Rel, Union, Values
from tempura.errors import TempuraError
from tempura.pace.rowwise import test_of, tuple_of

Change = list[tuple[Row, int]]
"""Rows with weights; a row may occur several times, with weights that cancel."""


def tuples(change: Iterable[tuple[Row, int]]) -> int:
    """How many tuples an operator sees that reads a change: deletions count, and an update counts as two."""
    return sum(abs(weight) for _, weight in change)


def net(change: Iterable[tuple[Row, int]]) -> Change:
    """The same change with one entry per row, and none that cancels. Rows are the same where Python's values are
    equal: of floats, -0.0 and 0.0 are one."""
    weights: dict[Row, int] = {}
    for row, weight in change:
        weights[row] = weights.get(row, 0) + weight
    return [(row, weight) for row, weight in weights.items() if weight]


class Running:
    """An operator with what it keeps. ``reread`` counts the kept tuples that it had to look through again, beyond
    looking rows up."""

    reread = 0

    def apply(self, *changes: Change) -> Change:
        """What comes out for what came in since the last time, per input."""
        raise NotImplementedError


class Filtering(Running):
    """Rows for which a predicate is TRUE."""

    def __init__(self, rel: Filter) -> None:
        self._test = test_of(rel.predicate, rel.input.columns)

    def apply(self, *changes: Change) -> Change:
        (change,) = changes
        test = self._test
        return [entry for entry in change if test(entry[0])]


class Mapping(Running):
    """One or more rows of each row."""

    def __init__(self, functions: Sequence[Callable[[Row], Row]]) -> None:
        self._functions = functions

    def apply(self, *changes: Change) -> Change:
        (change,) = changes
        if len(self._functions) == 1:
            function = self._functions[0]
            return [(function(row), weight) for row, weight in change]
        return [(function(row), weight) for row, weight in change for function in self._functions]


class Generating(Running):
    """Any number of rows of each row, as the interpreter makes them; a row's are remembered."""

    def __init__(self, rel: Generate) -> None:
        self._rel = rel
        self._made: dict[str, list[tuple[Row, int]]] = {}

    def apply(self, *changes: Change) -> Change:
        (change,) = changes
        return [(made, weight * times) for row, weight in change for made, times in self._of(row)]

    def _of(self, row: Row) -> list[tuple[Row, int]]:
        key = repr(row)
        if key not in self._made:
            bag = Evaluation(lambda rel: EMPTY).operator(self._rel, (SignedBag.of([row]),))
            self._made[key] = list(bag.items())
        return self._made[key]


class Adding(Running):
    """The rows of all inputs."""

    def apply(self, *changes: Change) -> Change:
        return [entry for change in changes for entry in change]


class Constant(Running):
    """Rows that are there from the start: they come out the first time."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: Change | None = [(row, 1) for row in rows]

    def apply(self, *changes: Change) -> Change:
        found, self._rows = self._rows or [], None
        return found


def linear(rel: Rel) -> Running | None:
    """An operator of this module; None for others."""
    match rel:
        case Filter():
            return Filtering(rel)
        case Project():
            return Mapping([tuple_of(rel.outputs, rel.input.columns)])
        case Expand():
            return Mapping([tuple_of(outputs, rel.input.columns) for outputs in rel.projections])
        case Generate():
            return Generating(rel)
        case Union():
            return Adding()
        case Values():
            return Constant(rel.rows)
    return None


def not_counted(rel: Rel) -> TempuraError:
    """The error for an operator that cannot be run over bags."""
    return TempuraError("NOT_INTERPRETED", f"the interpreter does not know {rel.label}.", "Run it on Spark.")
