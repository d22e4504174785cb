"""The tables and queries that a warehouse declares, as objects: a query reads tables, and a table may hold the results of a query."""

from functools import partial

from pyspark.sql import DataFrame

from tempura.warehouse.declared.declare import Declarations, QuerySpec, TableSpec
from tempura.warehouse.derived import Upstream
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.query import Query
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.table import Arrivals


class Catalog:
    """Tables and queries by name, as ``tempura.toml`` declares them at the moment, and the DataFrames that this process has declared
    queries by."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._frames: dict[str, DataFrame] = {}
        self._queries: dict[str, tuple[Declarations, Query]] = {}

    @property
    def declared(self) -> Declarations:
        """What is declared. Raises TempuraError BAD_TOML, BAD_NAME, BAD_SCHEDULE."""
        return self.site.declarations.read()

    # --- tables -----------------------------------------------------------------------------------------------------

    def table(self, name: str) -> Arrivals:
        """A declared table. Raises TempuraError UNKNOWN_TABLE."""
        return self.arrivals(name, self.declared.table(name))

    def tables(self) -> dict[str, Arrivals]:
        """All declared tables."""
        return {name: self.arrivals(name, spec) for name, spec in self.declared.tables.items()}

    def arrivals(self, name: str, spec: TableSpec) -> Arrivals:
        """A table as it would be by another declaration."""
        return Arrivals(self.site, name, spec, partial(self._upstream, name))

    def _upstream(self, name: str, spec: TableSpec) -> Upstream | None:
        return Upstream(self.site.engine, name, partial(self.query, spec.query)) if spec.query else None

    def readers(self, table: str) -> tuple[str, ...]:
        """The names of the queries that read a table."""
        return tuple(query.name for query in self.queries() if query.names(table))

    # --- queries ----------------------------------------------------------------------------------------------------

    def query_spec(self, name: str) -> QuerySpec:
        """How a query is declared. Raises TempuraError UNKNOWN_QUERY."""
        return self.declared.query(name)

    def query(self, name: str) -> Query:
        """A declared query. Raises TempuraError UNKNOWN_QUERY."""
        declared = self.declared
        spec = declared.query(name)
        # Lifting a query takes about a second: an object that has done it is kept as long as nothing is declared anew.
        if name not in self._queries or self._queries[name][0] != declared:
            self._queries[name] = (declared, self.made(name, spec, self.frame(name)))
        return self._queries[name][1]

    def queries(self) -> tuple[Query, ...]:
        """All declared queries."""
        return tuple(map(self.query, self.declared.queries))

    def made(self, name: str, spec: QuerySpec, frame: DataFrame | None) -> Query:
        """A query as it would be by another declaration."""
        kind = PacedQuery if spec.schedule.kind == "paced" else Query
        return kind(self.site, name, spec, self.tables(), frame)

    def frame(self, name: str) -> DataFrame | None:
        """The DataFrame that this process has declared a query by; None when there is none."""
        return self._frames.get(name)

    def remember(self, query: Query, frame: DataFrame | None) -> None:
        """Go on with a query that was declared just now, by a DataFrame if there is one."""
        if frame is not None:
            self._frames[query.name] = frame
        self._queries[query.name] = (self.declared, query)

    def forget(self, name: str, new: str | None = None) -> None:
        """A query is gone from its name, to a ``new`` one if there is one: so is its DataFrame."""
        frame = self._frames.pop(name, None)
        if frame is not None and new is not None:
            self._frames[new] = frame
