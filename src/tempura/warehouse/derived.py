"""Tables that are the results of another query: each result is an arrival of what it changed, however it was computed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.engine import Changes, Engine, Source, schema_of
from tempura.warehouse.query import Query
from tempura.warehouse.sources.feed import Batch, Widen
from tempura.warehouse.times.steps import StepManifest

Compared = dict[tuple[str, str], Changes]
"""What was found to have changed between two results, by their positions."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """The feed of a table that holds the results of a query. ``compared`` is shared by tables that hold the same results for as long as
    these are released: it keeps the last changes that were found, which Spark holds in memory."""

    engine: Engine
    table: str
    query: Callable[[], Query]
    compared: Compared | None = field(default=None, compare=False)

    def pending(self, arrivals: Sequence[Arrival], schema: StructType, widen: Widen | None = None) -> Iterator[Batch]:
        """The last result, as changes to the one that arrived before. Raises TempuraError WRONG_SCHEMA when it has other columns,
        CYCLIC_QUERY when the query reads this table, too."""
        query = self.query()
        results = {_position(step): step for step in query.outputs()}
        before = arrivals[-1].position if arrivals else ""
        last = next(reversed(results), before)
        if last == before:
            return
        check_acyclic(query)
        self._check_columns(schema_of(self.engine, query.lifted), schema)
        old = query.kept(results.get(before))

        def changes(present: Source) -> Changes:
            # A result that was collected meanwhile is still there as the rows of this table.
            known = old or (present if arrivals else None)
            found = (self.compared or {}).get((before, last))
            found = found or self.engine.change(known, query.stored(results[last]), query.lifted)
            if self.compared is not None:
                self.compared.clear()
                self.compared[before, last] = found
            return found

        yield Batch(changes=changes, position=last, trust=True)

    def present(self, arrivals: Sequence[Arrival]) -> Callable[[], Changes] | None:
        """The result that arrived last; None when it was collected."""
        query = self.query()
        steps = (step for step in query.outputs() if arrivals and _position(step) == arrivals[-1].position)
        stored = query.kept(next(steps, None))
        return partial(self.engine.change, None, stored, query.lifted) if stored else None

    def waits(self, arrivals: Sequence[Arrival]) -> bool:
        """Whether the query has another result than the one that arrived last."""
        results = [_position(step) for step in self.query().outputs()]
        return bool(results) and results[-1] != (arrivals[-1].position if arrivals else "")

    def _check_columns(self, found: StructType, schema: StructType) -> None:
        if self.engine.schema_text(found) != self.engine.schema_text(schema):
            what = f"Table {self.table} has the columns {self.engine.schema_text(schema)}, but the query that it is made of"
            what += f" gives {self.engine.schema_text(found)}."
            raise TempuraError("WRONG_SCHEMA", what, "Add a table of another name for the new columns.")


def check_acyclic(query: Query) -> None:
    """Raises TempuraError CYCLIC_QUERY when a query reads its own results, through however many tables and queries: each run would
    give it something new to read."""
    way = _way_back(query, query.name, set())
    if way:
        what = f"Query {query.name} reads its own results: it reads {', which is made from '.join(way)}."
        raise TempuraError("CYCLIC_QUERY", what, "Let one of them read something else.")


def _way_back(query: Query, name: str, seen: set[str]) -> tuple[str, ...]:
    """The tables and queries between a query and the results of another; () when there is no way."""
    seen.add(query.name)
    for table in query.reads:
        above = table.feed.query() if isinstance(table.feed, Upstream) else None
        if above and above.name == name:
            return f"table {table.name}", f"query {name}"
        if above and above.name not in seen and (way := _way_back(above, name, seen)):
            return f"table {table.name}", f"query {above.name}", *way
    return ()


def _position(step: StepManifest) -> str:
    return f"{step.n} {step.attempt}"
