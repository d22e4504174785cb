"""Checking a stored result against a recomputation over the same rows.

Results are compared as bags, by identity. Where Spark itself may return several answers for one input, the comparison allows
exactly these: float sums within 1e-9 relative, -0.0 for 0.0 where MIN or MAX may take either, and what depends on the order of rows
that ORDER BY cannot tell apart (the rows of a LIMIT, ROW_NUMBER). What that is the query says as Spark has analysed it: what was lifted,
from which the result was computed, may have lost an order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as fn

from tempura.algebra import window as windows
from tempura.algebra.rel import Aggregate, Consolidate, Opaque, Rel, Scan
from tempura.algebra.scalar import AggregateCall, Column
from tempura.algebra.states import averages_exactly, is_rounded
from tempura.algebra.window import ENDS, OFFSETS, RANKS
from tempura.errors import TempuraError
from tempura.execute.contract import WEIGHT, StoredState
from tempura.execute.draft import Draft
from tempura.execute.identity import is_exact
from tempura.execute.naming import attribute, ids
from tempura.execute.relation import Relation, expand
from tempura.execute.spark import SparkExecutor
from tempura.frontend.catalyst import JavaObject
from tempura.frontend.opaque import Recompute
from tempura.physical.operators import Read, StateKey
from tempura.rules.helpers import picks_by_order
from tempura.tvr.views import Snapshot
from tempura.warehouse.engine import Check, Source, Verification, WholeQuery
from tempura.warehouse.spark.determined import Columns, determined, equal_only, largest
from tempura.warehouse.spark.rows import difference, read_columns
from tempura.warehouse.spark.whole import as_written, own_answer_to
from tempura.warehouse.spark.written import determined_places, is_determined_plan

_TOLERANCE = 1e-9
_SAMPLES = 10
_EXACT_OF_FLOATS = frozenset(("Min", "Max", "Count")) | RANKS | OFFSETS | ENDS


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One check at work. ``session`` is a clone with the settings of the run, which is free to be changed."""

    session: SparkSession
    check: Check
    written: JavaObject | None
    """The query as Spark analyses it, of a text."""

    @property
    def visible(self) -> tuple[Column, ...]:
        return self.check.lifted.rel.columns[: self.check.lifted.visible]

    def stored(self) -> DataFrame:
        names = [column.id for column in self.visible]
        return self._executor().result(self.check.stored, self.check.lifted.rel.columns, names)

    def recomputed(self) -> DataFrame:
        """The query as the user wrote it, run by Spark alone; one from a DataFrame as the algebra recomputes it."""
        if self.written is None:
            return self.by_algebra()
        rows = own_answer_to(
            self.session, self.written, WholeQuery(str(self.check.query), self.check.lifted, self.check.tables)
        )
        return rows.toDF(*(column.id for column in self.visible))

    def determined(self) -> list[tuple[Column, ...]]:
        """Sets of columns of which every correct engine gives the same rows."""
        rel, found = self.check.lifted.rel, list[Columns]()
        if self.written is not None:
            places = determined_places(self.session, self.written)
            found += [frozenset(self.visible[i] for i in some) for some in places]
        if self.written is None or not any(isinstance(r, Opaque) for r in rel.walk()):
            # Spark's optimizer may have seen more; of what it computes for a plan as it is the relation knows nothing.
            found += [columns & frozenset(self.visible) for columns in determined(rel)]
        return [tuple(c for c in self.visible if c in columns) for columns in largest(found)]

    def is_repeatable(self) -> bool:
        """Whether the algebra recomputed gives the same rows, in whatever order it reads them."""
        return not any(self._is_open(rel) for rel in self.check.lifted.rel.walk())

    def _is_open(self, rel: Rel) -> bool:
        match rel:
            case Aggregate():
                return any(picks_by_order(a.call) for a in rel.aggregates)
            case Opaque(handle=Recompute(plan=plan)):
                return not is_determined_plan(self.session, plan)
        return False

    def by_algebra(self) -> DataFrame:
        """The query recomputed from the algebra: ties are broken as in every step."""
        rel = _over_snapshots(self.check.lifted.rel, self.check.tables, {})
        frame = self._executor().dataframe(rel)
        rows = expand(Relation(Draft.of(frame), WEIGHT in frame.columns), rel.columns)
        return rows.select(*ids(self.visible)).dataframe()

    def _executor(self) -> SparkExecutor:
        return SparkExecutor(self.session, self._read, no_state)

    def _read(self, read: Read) -> Draft:
        return read_columns(self.session, self.check.tables[read.scan.table], read)


def verify(session: SparkSession, check: Check) -> Verification:
    """Compare. Raises nothing of its own: a difference is a result."""
    is_text = isinstance(check.query, str)
    work = _Comparison(session, check, as_written(session, check.query, check.tables) if is_text else None)
    expected = work.recomputed().persist()
    try:
        tolerant, either = depends_on_order(check.lifted.rel), equal_only(check.lifted.rel)
        how = "sums of floats within 1e-9" if tolerant else "identical bags"
        rows, found = expected.count(), work.stored()
        averages = averages_only(check.lifted.rel)
        left = _left_over(found, expected, work.visible, tolerant and not averages, either)
        if left is not None and averages and _is_own(work, found):
            left = _left_over(found, expected, work.visible, tolerant, either)
        sets = [] if left is None else work.determined()
        if left is None or work.visible in sets:
            return _verification(left, rows, how)
        return _with_ties(work, found, expected, sets, rows, tolerant)
    finally:
        expected.unpersist()


def _with_ties(
    work: _Comparison,
    found: DataFrame,
    expected: DataFrame,
    sets: Sequence[Sequence[Column]],
    rows: int,
    tolerant: bool,
) -> Verification:
    """An order with ties: the result must be the one of Tempura's order, and be Spark's as far as SQL determines it, whichever way
    ties are broken."""
    rel = work.check.lifted.rel
    repeatable = work.is_repeatable()
    left = _left_over(found, work.by_algebra(), work.visible, tolerant, equal_only(rel)) if repeatable else None
    for columns in sets:
        # Without columns this compares the number of rows.
        left = left if left is not None else _left_over(found, expected, columns, tolerant, equal_only(rel))
    own = "the recomputation in Tempura's order, and " if repeatable else ""
    return _verification(left, rows, f"ties: {own}Spark's {_listed(sets)}")


def _listed(sets: Sequence[Sequence[Column]]) -> str:
    """For people: the columns that were compared with Spark's."""
    texts = (", ".join(column.name for column in columns) or "number of rows" for columns in sets)
    return " and ".join(f"({text})" for text in texts) or "nothing, because every column depends on ties"


def _verification(left: DataFrame | None, rows: int, how: str) -> Verification:
    if left is None:
        return Verification(True, rows, (), (), how)
    missing = left.filter(fn.col(WEIGHT) < 0).limit(_SAMPLES).collect()
    extra = left.filter(fn.col(WEIGHT) > 0).limit(_SAMPLES).collect()
    sides = [tuple(str(tuple(row)[:-1]) for row in side) for side in (missing, extra)]
    return Verification(False, rows, sides[0], sides[1], how)


def _left_over(
    found: DataFrame, expected: DataFrame, columns: Sequence[Column], tolerant: bool, either: Columns
) -> DataFrame | None:
    """What remains of ``found`` minus ``expected``, with a weight; None when nothing does. ``either``: columns in
    which values are the same that SQL holds for equal."""
    left = difference(found, expected, columns, alike=either)
    if tolerant and not left.isEmpty():
        left = _without_close(left, columns)
    return None if left.isEmpty() else left


def _is_own(work: _Comparison, found: DataFrame) -> bool:
    """Whether a result is, to the last digit, what the algebra gives: AVG of integers is a function of the bag here, also where Spark,
    which adds doubles, leaves digits open."""
    return _left_over(found, work.by_algebra(), work.visible, False, equal_only(work.check.lifted.rel)) is None


def _without_close(left: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The difference without pairs of rows, one missing and one extra, whose floats are close and whose other columns are equal.
    Rows that agree in the other columns are paired in the order of their floats."""
    floats = [column for column in columns if column.type in ("float", "double")]
    if not floats:
        return left
    exact = [column for column in columns if column not in floats]
    units = left.withColumn("_i", fn.explode(fn.sequence(fn.lit(1), fn.abs(WEIGHT).cast("int")))).drop("_i")
    ranked = units.withColumn("_rank", fn.row_number().over(_order(exact, floats)))
    sides = [_side(ranked, columns, fn.col(WEIGHT) < 0, "m"), _side(ranked, columns, fn.col(WEIGHT) > 0, "e")]
    same = [_part("m", c).eqNullSafe(_part("e", c)) for c in exact] + [fn.col("_rank_m") == fn.col("_rank_e")]
    paired = sides[0].join(sides[1], same, "full_outer")
    close = reduce(SparkColumn.__and__, (_close(_part("m", c), _part("e", c)) for c in floats))
    both = fn.col("_rank_m").isNotNull() & fn.col("_rank_e").isNotNull()
    far = paired.filter(~fn.coalesce(both & close, fn.lit(False)))
    return _unpaired(far, columns, "m", -1).unionAll(_unpaired(far, columns, "e", 1))


def _order(exact: Sequence[Column], floats: Sequence[Column]) -> WindowSpec:
    by = [attribute(column.id) for column in exact if is_exact(column.type)]
    return Window.partitionBy(fn.col(WEIGHT) > 0, *by).orderBy(*(attribute(c.id) for c in floats))


def _side(ranked: DataFrame, columns: Sequence[Column], which: SparkColumn, side: str) -> DataFrame:
    named = (attribute(c.id).alias(f"{side}.{c.id}") for c in columns)
    return ranked.filter(which).select(*named, fn.col("_rank").alias(f"_rank_{side}"))


def _unpaired(far: DataFrame, columns: Sequence[Column], side: str, weight: int) -> DataFrame:
    rows = far.filter(fn.col(f"_rank_{side}").isNotNull())
    return rows.select(*(_part(side, c).alias(c.id) for c in columns), fn.lit(weight).cast("bigint").alias(WEIGHT))


def _part(side: str, column: Column) -> SparkColumn:
    return attribute(f"{side}.{column.id}")


def _close(left: SparkColumn, right: SparkColumn) -> SparkColumn:
    near = fn.abs(left - right) <= _TOLERANCE * fn.greatest(fn.abs(left), fn.abs(right))
    return left.eqNullSafe(right) | near


def depends_on_order(rel: Rel) -> bool:
    """Whether a value may depend on the order in which floats are added."""
    return any(
        isinstance(r, Opaque) or (isinstance(r, Aggregate | windows.Window) and _adds_floats(r)) for r in rel.walk()
    )


def averages_only(rel: Rel) -> bool:
    """Whether the order of additions decides digits of nothing but averages of integers."""
    calls = [a.call for r in rel.walk() if isinstance(r, Aggregate) for a in r.aggregates]
    others = any(isinstance(r, Opaque) or (isinstance(r, windows.Window) and _adds_floats(r)) for r in rel.walk())
    return (
        not others and any(map(averages_exactly, calls)) and all(averages_exactly(c) or not _rounds(c) for c in calls)
    )


def _adds_floats(rel: Aggregate | windows.Window) -> bool:
    return any(
        _rounds(output.call) for output in (rel.functions if isinstance(rel, windows.Window) else rel.aggregates)
    )


def _rounds(call: AggregateCall) -> bool:
    if call.function in _EXACT_OF_FLOATS:
        return False
    return averages_exactly(call) or is_rounded(call) or any(o.type in ("float", "double") for o in call.operands)


def _over_snapshots(rel: Rel, tables: Mapping[str, Source], done: dict[Rel, Rel]) -> Rel:
    """The expression with each scan read as it was."""
    if rel not in done:
        if isinstance(rel, Scan):
            signed = tables[rel.table].rows.signed
            read = Read(rel, Snapshot(0), signed)
            done[rel] = Consolidate(read) if signed else read
        else:
            done[rel] = rel.with_inputs(*(_over_snapshots(r, tables, done) for r in rel.inputs)) if rel.inputs else rel
    return done[rel]


def no_state(key: StateKey) -> StoredState:
    """Where there is no state to load. Raises TempuraError UNKNOWN_STATE."""
    raise TempuraError("UNKNOWN_STATE", f"A recomputation loads {key}.", "This is a defect; please report it.")
