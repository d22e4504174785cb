"""Runs the steps of a progressive plan on Spark."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.rel import Rel
from tempura.algebra.scalar import Column, SortKey
from tempura.cost.model import SPARK, CostModel
from tempura.errors import TempuraError
from tempura.execute.at_once import run_at_once
from tempura.execute.contract import WEIGHT, Joins, StepOutcome, StoredOutput, StoredState
from tempura.execute.counting import RowCounter
from tempura.execute.draft import Draft
from tempura.execute.failure import errors_by_code, is_of_a_side
from tempura.execute.files import Files, possible_bucket
from tempura.execute.interrupt import cancelled_when_interrupted, stop_jobs
from tempura.execute.metrics import Meter
from tempura.execute.naming import attribute, ids
from tempura.execute.parts import is_counted, merge_of, parts_to_keep
from tempura.execute.relation import Relation, plain
from tempura.execute.render import Renderer, order_by
from tempura.execute.sharing import Sink, needs_of, shared
from tempura.physical.growth import growth, named_otherwise
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import Note, Step

ReadTable = Callable[[Read], Draft]
"""Gives the arrivals of a table: the columns ``read.scan.fields`` in order, whatever their names, then the weight (bigint) if
``read.signed``."""

ReadDeleted = Callable[[Read], Draft | None]
"""Gives those of the same rows, weights included, that are deletions, where they are few of many; else None."""

ReadClean = Callable[[Read], Callable[[], Draft] | None]
"""Gives what makes the rows that are left of the same rows, each with weight 1, where they can be told; else None."""

_WITHOUT_HINTS = Joins(
    0, ("all joins: as Spark chose, for a side that was to be held in memory was too large for that",)
)

Answer = Callable[[], Draft | None]
"""Gives all rows of a step's output; None when it cannot."""


class SparkExecutor:
    """Computes relations and steps in a session, which it never changes.

    ``read`` gives a table's arrivals, whose weights are 1 and -1 if they are ``units``, ``deleted`` the deletions among them, ``clean``
    what is left; ``load`` says where a state of an earlier step lies, ``progress`` is told in words what happens. ``buckets`` is the number
    of buckets of new states, the session's number of shuffle partitions by default; ``uses`` how often a state is expected to be read;
    ``prices`` decide when its parts are put together. ``most``: as many tasks as write a result; 0 where it does not matter.
    """

    def __init__(
        self,
        session: SparkSession,
        read: ReadTable,
        load: Callable[[StateKey], StoredState],
        progress: Callable[[str], None] | None = None,
        buckets: int | None = None,
        uses: int = 1,
        prices: CostModel = SPARK,
        deleted: ReadDeleted = lambda read: None,
        clean: ReadClean = lambda read: None,
        units: bool = False,
        most: int = 0,
    ) -> None:
        self._session = session
        self._read = read
        self._load = load
        self._progress = progress or (lambda message: None)
        self._files = Files(session, buckets, most=most)
        self._uses = uses
        self._prices = prices
        self._deleted = deleted
        self._clean = clean
        self._units = units

    def dataframe(self, rel: Rel, notes: Mapping[Rel, Note] = MappingProxyType({})) -> DataFrame:
        """The rows of an expression: columns named by ``Column.id``, and ``_w`` if there are weights. ``notes``: how joins are made."""
        return Renderer(self._session, lambda leaf: self._leaf(leaf, {}), notes=notes).relation(rel).draft.dataframe()

    def run(self, step: Step, folder: Path, answer: Answer | None = None) -> StepOutcome:
        """Compute a step and write its states and its output into ``folder``, which must not hold a step yet. ``answer`` may give the rows
        of the output, in its columns, where there is a better way to them than by the step.

        Whatever was written before an error stays there: who calls commits the folder or throws it away.
        """
        context = self._session.sparkContext
        with errors_by_code(), cancelled_when_interrupted(context), Meter(context) as meter:
            try:
                with RowCounter(self._files.writer, step) as counter:
                    states, output, answered = self._run(step, folder, answer, step.notes, counter)
                joins = counter.joins()
            except Py4JJavaError as error:
                if not is_of_a_side(error):
                    raise
                self._progress("again: a side of a join that was to be held in memory was too large for that")
                shutil.rmtree(folder)
                states, output, answered = self._run(step, folder, answer, {})
                joins = _WITHOUT_HINTS
        counts = {str(key): stored.rows for key, stored in states.items()} | ({"output": output.rows} if output else {})
        return StepOutcome(states, output, meter.usage, counts, counter.counted(), answered, joins)

    def _run(
        self,
        step: Step,
        folder: Path,
        answer: Answer | None,
        notes: Mapping[Rel, Note],
        counter: RowCounter | None = None,
    ) -> tuple[dict[StateKey, StoredState], StoredOutput | None, bool]:
        """The states, the output, and whether that is the answer's."""
        needs = needs_of(step)
        sinks = tuple(needs)
        states: dict[StateKey, StoredState] = {}
        output: StoredOutput | None = None
        kept = step.kept_result
        answered = False
        names = counter.names if counter else {}
        renderer = Renderer(self._session, lambda leaf: self._leaf(leaf, states), shared(sinks), notes, names)

        def begin(sink: Sink) -> Callable[[], StoredState]:
            nonlocal answered
            i = sinks.index(sink)
            self._progress(f"{sink.name} ({i + 1} of {len(sinks)})")
            if sink.save is None and kept:
                return lambda: states[kept.key]
            is_result = sink.save is None or sink.save == kept
            found = answer() if answer and is_result else None
            if found:
                answered = True
                columns = sink.rel.columns  # of a result that is kept as a state, those of the state
                rows = Relation(found.renamed(*ids(columns)), weighted=False)
                return lambda: self._files.of_results().save(rows, columns, (), folder / "output")
            place = folder / "output" if is_result else folder / "states" / _folder(sink, i)
            grown = self._grown(sink, is_result, renderer, states, place) if step.appends or not is_result else None
            return grown or self._whole(sink, renderer, place)

        def end(sink: Sink, stored: StoredState) -> None:
            nonlocal output
            if sink.save is None:
                output = StoredOutput.of(stored)
                return
            states[sink.save.key] = stored
            if not isinstance(sink.rel, Load):
                renderer.define(sink.rel, self._files.load(stored, sink.rel.columns))

        try:
            run_at_once(needs, begin, end, partial(stop_jobs, self._session.sparkContext))
            if counter:
                counter.look_at(renderer.persisted)
        finally:
            renderer.release()
        return states, output, answered

    def result(
        self,
        stored: StoredOutput,
        columns: Sequence[Column],
        names: Sequence[str],
        order: Sequence[SortKey] = (),
    ) -> DataFrame:
        """A stored result as its user wants it: in the order of ``order``, the first ``len(names)`` of ``columns``, so named."""
        rows = self._files.load_output(stored, columns)
        if order:
            rows = rows.orderBy(*(order_by(key.expr, key.ascending, key.nulls_first) for key in order))
        visible = columns[: len(names)]
        return rows.select(*(attribute(c.id).alias(name) for c, name in zip(visible, names, strict=True)))

    def parts(self, stored: StoredOutput, columns: Sequence[Column]) -> Draft:
        """What the parts of a stored result hold, as it lies: columns named by ``Column.id``, and ``_w``."""
        return self._files.load_parts(stored, columns)

    def state(self, stored: StoredState, columns: Sequence[Column]) -> DataFrame:
        """A stored state with columns named by ``Column.id``, and ``_w`` if there are weights."""
        return self._files.load(stored, columns).draft.dataframe()

    def _whole(self, sink: Sink, renderer: Renderer, folder: Path) -> Callable[[], StoredState]:
        """What is left to do to write all of a state or result."""
        files, columns = self._files, sink.rel.columns
        rows = renderer.relation(sink.rel)
        if sink.is_plain:
            files, rows = files.of_results(), plain(rows, columns)
        return lambda: files.save(rows, columns, sink.bucket, folder)

    def _grown(
        self, sink: Sink, is_result: bool, renderer: Renderer, states: dict[StateKey, StoredState], folder: Path
    ) -> Callable[[], StoredState] | None:
        """What is left to do to write a state or result as one that is stored, or that one and a new part; None when it is to be written
        as a whole."""
        repeated, found = named_otherwise(sink.rel), growth(sink.rel)
        load = repeated if found is None else found.base
        if not isinstance(load, Load):
            return None
        base = self._stored(load.key, states)
        if is_result and not is_counted(base):
            return None
        if found is None:
            return (lambda: base) if not sink.bucket or base.bucket == sink.bucket else None
        merge, columns = merge_of(found), found.columns
        keep = parts_to_keep(base, merge, self._uses, self._prices)
        if not keep or base.bucket != possible_bucket(columns, sink.bucket):
            return None
        files, rows = self._files, renderer.relation(found.delta)
        if sink.is_plain:
            files, rows = files.of_results(), rows if found.signed else plain(rows, columns)
        return lambda: files.append(base, keep, merge, rows, columns, folder)

    def _leaf(self, leaf: Rel, states: dict[StateKey, StoredState]) -> Relation:
        match leaf:
            case Read():
                return self._arrivals(leaf)
            case Load():
                return self._files.load(self._stored(leaf.key, states), leaf.outputs)
        raise TempuraError("NOT_EXECUTABLE", f"a plan cannot read {leaf.label}.", "This is an error in Tempura.")

    def _stored(self, key: StateKey, states: dict[StateKey, StoredState]) -> StoredState:
        return states[key] if key in states else self._load(key)

    def _arrivals(self, read: Read) -> Relation:
        names = ids(read.scan.outputs) + ([WEIGHT] if read.signed else [])
        clean = self._clean(read) if read.signed else None
        deleted = self._deleted(read) if read.signed and not clean else None
        taken = deleted.renamed(*names) if deleted is not None else None
        left = (lambda: clean().renamed(*names)) if clean else None
        return Relation(self._read(read).renamed(*names), read.signed, taken, left, units=self._units)


def _folder(sink: Sink, i: int) -> str:
    assert sink.save is not None
    key = sink.save.key
    return "-".join(
        (f"{i:03d}", *("".join(c for c in part if c.isalnum())[:16] for part in (key.kind, key.expression)))
    )
