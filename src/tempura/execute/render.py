"""Relational expressions as plans of Spark."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.expand import Expand
from tempura.algebra.failing import operator_can_fail
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import (
    Aggregate,
    Consolidate,
    Filter,
    Join,
    Negate,
    Opaque,
    Project,
    Rel,
    Sort,
    Support,
    TopK,
    Union,
    Values,
    is_renaming,
)  # fmt: skip
from tempura.algebra.scalar import TRUE, AggregateCall, Call, Column, Expr, Literal, Output, Ref
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.algebra.window import Window
from tempura.errors import TempuraError
from tempura.execute import functions as fn
from tempura.execute.aggregates import Aggregation
from tempura.execute.at_once import run_at_once
from tempura.execute.contract import WEIGHT
from tempura.execute.draft import Draft, Item
from tempura.execute.identity import consolidate, distinct, is_exact, is_ordered, text
from tempura.execute.interrupt import stop_jobs
from tempura.execute.jvm import Jvm
from tempura.execute.naming import attribute, ids, one, weight
from tempura.execute.netting import net
from tempura.execute.operators import expanded, one_row, recompute, window
from tempura.execute.relation import Parts, Relation, expand, with_weight
from tempura.frontend.expressions import bind, bind_aggregate, bind_generator, column
from tempura.physical.narrowing import selected
from tempura.plan.progressive import Note

_RIGHT_WEIGHT = "_v"
_KIND = {"inner": "inner", "left": "left_outer", "full": "full_outer", "semi": "left_semi", "anti": "left_anti"}

Leaf = Callable[[Rel], Relation]
"""Gives the rows of a leaf (``Read``, ``Load``) with columns named by their identities."""


def name_of(column: Column) -> str:
    """The name of a column at execution time."""
    return column.id


def scalar(expr: Expr) -> SparkColumn:
    """A scalar expression over columns named by their identities."""
    return column(bind(expr, name_of))


def aggregate_call(call: AggregateCall) -> SparkColumn:
    """An aggregate function over columns named by their identities."""
    return column(bind_aggregate(call, name_of))


class Renderer:
    """Renders the expressions of one step; equal sub-expressions become one plan. ``notes`` say how joins are made, ``names`` under which
    names operators are found when they have run.

    ``persist`` are the expressions whose rows are kept in memory or on disk once computed, because several parts of the step
    read them; :meth:`release` frees them. :meth:`define` replaces an expression by rows that are already there.
    """

    def __init__(
        self,
        session: SparkSession,
        leaf: Leaf,
        persist: frozenset[Rel] = frozenset(),
        notes: Mapping[Rel, Note] = MappingProxyType({}),
        names: Mapping[Rel, str] = MappingProxyType({}),
    ) -> None:
        self._session = session
        self._names = names
        self._notes = notes
        self._leaf = leaf
        self._persist = persist
        self._done: dict[Rel, Relation] = {}
        self.persisted: list[DataFrame] = []
        self._aggregation = Aggregation(scalar, aggregate_call)

    def define(self, rel: Rel, rows: Relation) -> None:
        """From now on ``rel`` is read from ``rows``."""
        self._done[rel] = rows

    def release(self) -> None:
        """Free what was persisted."""
        while self.persisted:
            self.persisted.pop().unpersist()

    def relation(self, rel: Rel) -> Relation:
        """The rows of an expression; what it reads several times is computed for that. Raises TempuraError for what Spark cannot compute
        (``NOT_COMPARABLE``, ``NOT_EXECUTABLE``), and what Spark raises."""
        run_at_once(self._to_keep(rel), self._keep, self.define, partial(stop_jobs, self._session.sparkContext))
        return self._rendered(rel)

    def _rendered(self, rel: Rel) -> Relation:
        if rel not in self._done:
            made = self._operator(rel, [self._input(rel, input) for input in rel.inputs])
            if rel in self._names:
                made = replace(made, draft=made.draft.named(self._names[rel]))
            self._done[rel] = made
        return self._done[rel]

    def _input(self, rel: Rel, input: Rel) -> Relation:
        """The rows of an input. What may fail for a row is not to be computed for one that was taken out of it."""
        rows = self._rendered(input)
        takes_out = isinstance(input, Consolidate | Support)
        fails = takes_out and (isinstance(rel, Opaque) or operator_can_fail(rel))
        return replace(rows, draft=rows.draft.fenced()) if fails else rows

    def _to_keep(self, rel: Rel) -> dict[Rel, frozenset[Rel]]:
        """What is to be kept of an expression and of what it reads, inputs first, and of that what each reads."""
        below: dict[Rel, frozenset[Rel]] = {}
        needs: dict[Rel, frozenset[Rel]] = {}

        def look(node: Rel) -> frozenset[Rel]:
            if node not in below:
                inputs = () if node in self._done else node.inputs
                below[node] = frozenset[Rel]().union(*map(look, inputs))
                if node in self._persist and node not in self._done:
                    needs[node] = below[node]
                    below[node] |= {node}
            return below[node]

        look(rel)
        return needs

    def _keep(self, rel: Rel) -> Callable[[], Relation]:
        """What is left to do to compute an expression once. It is a leaf to its readers: the plan of what is shared, and of what that
        shares, would be analysed, compared and printed once for each path that leads to it, and there may be exponentially many."""
        made = self._rendered(rel)
        frame = made.draft.dataframe().persist()
        self.persisted.append(frame)
        return lambda: Relation(Draft.of(Jvm(self._session).leaf(frame)), made.weighted, units=made.units)

    def _operator(self, rel: Rel, inputs: list[Relation]) -> Relation:
        match rel:
            case Join():
                return _join(rel, *self._sent(rel, inputs))
            case Union():
                return _union(rel, inputs)
            case MergeStates():
                return self._aggregation.merge(rel, *inputs)
            case Opaque():
                return recompute(self._session, rel, inputs)
            case Values():
                return constant_rows(self._session, rel)
        return self._unary(rel, *inputs) if inputs else self._leaf(rel)

    def _sent(self, rel: Join, inputs: list[Relation]) -> list[Relation]:
        """The sides of a join, with a word to Spark on the one that is sent to every task, or held in a table by each: of what was filtered
        and joined Spark thinks that it is large, and would shuffle the other side first; and what is shuffled it would sort."""
        note = self._notes.get(rel)
        if note is None:
            return inputs
        hinted = {note.broadcast: Draft.broadcast, note.held: Draft.held}
        return [replace(s, draft=hinted[i](s.draft)) if i in hinted else s for i, s in enumerate(inputs)]

    def _unary(self, rel: Rel, input: Relation) -> Relation:
        match rel:
            case Filter():
                condition = scalar(rel.predicate)
                return _linear(input, lambda rows: rows.filter(condition))
            case Project():
                return _project(rel, input)
            case Expand():
                return expanded(rel, input, scalar)
            case Sort():
                return input
            case Negate():
                negated = with_weight(input).select(*ids(rel.columns), (-weight()).alias(WEIGHT))
                return Relation(negated, weighted=True, units=input.is_of_units)
            case Aggregate():
                return self._aggregation.aggregate(rel, input)
            case Partial():
                return self._aggregation.partial(rel, input)
            case Finalize():
                return self._aggregation.finalize(rel, input)
            case Consolidate():
                return _consolidate(rel, input)
            case Support():
                return _support(rel, input)
            case TopK():
                return top(rel, input)
            case One():
                return one_row(rel, input)
            case Generate():
                return _generate(rel, input)
            case Window():
                return window(rel, input)
        raise TempuraError(
            "NOT_EXECUTABLE", f"the Spark executor does not know {rel.label}.", "This is an error in Tempura."
        )


def _linear(input: Relation, operation: Callable[[Draft], Draft]) -> Relation:
    """What is done to each row by itself is done to the deletions by themselves, too, and to the rows that are left."""
    taken = operation(input.taken) if input.taken is not None else None
    clean = input.clean
    left = (lambda: operation(clean())) if clean else None
    return Relation(operation(input.draft), input.weighted, taken, left, units=input.units)


def _project(rel: Project, input: Relation) -> Relation:
    outputs = (*map(_output, rel.outputs), *input.carry())
    made = _linear(input, lambda rows: rows.select(*outputs))
    return replace(made, parts=_renamed(rel, input.parts)) if input.parts and is_renaming(rel) else made


def _renamed(rel: Project, parts: Parts) -> Parts:
    """The parts of a relation under other names; they are merged under their own."""
    names = list(zip(ids(rel.input.columns), ids(rel.columns), strict=True))

    def merge(rows: Relation) -> Relation:
        return _under(names, parts.merge(_under([(new, old) for old, new in names], rows)))

    return Parts(_under(names, parts.rows), parts.keys, merge)


def _under(names: list[tuple[str, str]], rows: Relation) -> Relation:
    return Relation(rows.draft.select(*names, *rows.carry()), rows.weighted, units=rows.units)


def _output(output: Output) -> Item:
    if isinstance(output.expr, Ref):
        return output.expr.column.id, output.column.id
    return scalar(output.expr).alias(output.column.id)


def _generate(rel: Generate, input: Relation) -> Relation:
    made = column(bind_generator(rel.generator, rel.outer, name_of)).alias(*(c.id for c in rel.outputs))
    rows = input.draft.select(*ids(rel.input.columns), made, *input.carry())
    return Relation(rows, input.weighted)


def constant_rows(session: SparkSession, rel: Values) -> Relation:
    """Rows that are part of a query."""
    if not rel.outputs:
        return Relation(Draft.of(session.range(len(rel.rows))).select(), weighted=False)
    if not rel.rows:
        nulls = [scalar(Literal(None, c.type)).alias(c.id) for c in rel.outputs]
        return Relation(Draft.of(session.range(0)).select(*nulls), weighted=False)
    rows = [fn.struct(*_constants(rel, row)) for row in rel.rows]
    return Relation(Draft.of(session.range(1)).select(fn.inline(fn.array(*rows))), weighted=False)


def _constants(rel: Values, row: tuple[object, ...]) -> list[SparkColumn]:
    return [scalar(Literal(v, c.type)).alias(c.id) for c, v in zip(rel.outputs, row, strict=True)]


def _union(rel: Union, terms: list[Relation]) -> Relation:
    weighted = any(term.weighted for term in terms)
    aligned = [with_weight(term) if weighted else term.draft for term in terms]
    first, *others = (rows.select(*ids(rel.columns), *((WEIGHT,) if weighted else ())) for rows in aligned)
    clean = _clean(rel, terms) if weighted else None
    return Relation(first.union(*others), weighted, _taken(rel, terms), clean, units=all(t.is_of_units for t in terms))


def _clean(rel: Union, terms: list[Relation]) -> Callable[[], Draft] | None:
    """The rows that are left of a sum, where those of each signed term can be told."""
    made = [term.clean if term.weighted else partial(with_weight, term) for term in terms]
    known = [one for one in made if one is not None]
    if len(known) < len(made):
        return None

    def united() -> Draft:
        first, *others = (left().select(*ids(rel.columns), WEIGHT) for left in known)
        return first.union(*others)

    return united


def _taken(rel: Union, terms: list[Relation]) -> Draft | None:
    """The deletions of a sum, where those of each signed term are known."""
    signed = [term.taken for term in terms if term.weighted]
    known = [taken.select(*ids(rel.columns), WEIGHT) for taken in signed if taken is not None]
    return known[0].union(*known[1:]) if known and len(known) == len(signed) else None


def _join(rel: Join, left: Relation, right: Relation) -> Relation:
    parts = left.parts
    if parts and selected(rel, lambda _: parts.keys):
        return parts.merge(_join(rel, parts.rows, right))
    if rel.marker is not None:
        marked = left.draft.exists(right.draft, bind(rel.on, name_of), rel.marker.id)
        return Relation(marked.select(*ids(rel.columns), *left.carry()), left.weighted, units=left.units)
    if rel.kind == "single":
        # Rows of the right are counted one by one: a weight of two is two matches.
        found = left.draft.single(expand(right, rel.right.columns), bind(rel.on, name_of))
        return Relation(found.select(*ids(rel.columns), *left.carry()), left.weighted, units=left.units)
    other = right.draft.select(*ids(rel.right.columns), (WEIGHT, _RIGHT_WEIGHT)) if right.weighted else right.draft
    if rel.on == TRUE and rel.kind == "inner":
        joined = left.draft.join(other, None, "cross")
    else:
        joined = left.draft.join(other, scalar(_asked(rel)), _KIND[rel.kind])
    if rel.kind in ("semi", "anti"):
        return Relation(joined, left.weighted, units=left.units)
    if not (left.weighted or right.weighted):
        return Relation(joined, weighted=False)
    product = _side_weight(WEIGHT, left, rel.kind == "full") * _side_weight(_RIGHT_WEIGHT, right, rel.kind != "inner")
    units = left.is_of_units and right.is_of_units
    return Relation(joined.select(*ids(rel.columns), product.alias(WEIGHT)), weighted=True, units=units)


def _asked(rel: Join) -> Expr:
    """The condition of a join as Spark is asked it. In ``x = 2 OR (x = 2) IS NULL`` it sees a NOT IN, and looks x up in a table of the
    right side's rows by the value 2. Nothing else is read of these, so they have no columns, and the first of them, which has no bytes and
    lies at the table's beginning, is not found. The other way round it compares rows."""
    match rel.on:
        case Call("Or", (a, b)) as on if rel.kind == "anti" and on.columns.isdisjoint(rel.right.columns):
            return replace(on, operands=(b, a))
    return rel.on


def _side_weight(name: str, side: Relation, padded: bool) -> SparkColumn:
    """The weight that a side contributes: 1 where it is a plain bag, or where the row has no match on it."""
    if not side.weighted:
        return one()
    return fn.coalesce(fn.col(name), one()) if padded else fn.col(name)


def _consolidate(rel: Consolidate, input: Relation) -> Relation:
    # A plain bag says the same as its consolidation, in more rows.
    return net(input, rel.columns) if input.weighted else input


def _support(rel: Support, input: Relation) -> Relation:
    if not input.weighted:
        return Relation(distinct(input.draft, rel.columns), weighted=False)
    return Relation(consolidate(input.draft, rel.columns).select(*ids(rel.columns)), weighted=False)


def top(rel: TopK, input: Relation) -> Relation:
    """The first rows of the input in an order: whichever rows are equal in it, all columns tell which comes first."""
    rows = expand(input, rel.columns)
    order = [order_by(key.expr, key.ascending, key.nulls_first) for key in rel.order]
    return Relation(rows.sort(*order, *_tie_breaks(rel)).limit(rel.limit), weighted=False)


def order_by(expr: Expr, ascending: bool, nulls_first: bool) -> SparkColumn:
    """A key of an ORDER BY."""
    key = scalar(expr)
    if ascending:
        return key.asc_nulls_first() if nulls_first else key.asc_nulls_last()
    return key.desc_nulls_first() if nulls_first else key.desc_nulls_last()


def _tie_breaks(rel: TopK) -> list[SparkColumn]:
    """All columns by SQL's order where their type has one; then the text of those whose values SQL cannot always tell apart."""
    by_value = [attribute(c.id).asc_nulls_first() for c in rel.columns if is_ordered(c.type)]
    return by_value + [text(c).asc_nulls_first() for c in rel.columns if not is_exact(c.type)]
