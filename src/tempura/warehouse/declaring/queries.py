"""Declaring a query, and putting another one in its place."""

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from tempura.algebra.canonical import fingerprint
from tempura.errors import TempuraError
from tempura.warehouse.catalog import Catalog
from tempura.warehouse.declared.declare import QuerySpec, check_budget, check_name, check_storage_price
from tempura.warehouse.declared.kinds import QUERY, check_given
from tempura.warehouse.derived import check_acyclic
from tempura.warehouse.query import Methods, Query
from tempura.warehouse.runs.replace import ReplaceReport
from tempura.warehouse.runs.required import Demand, check_maintainable
from tempura.warehouse.tables.site import Site
from tempura.warehouse.times.schedule import Schedule, check_schedule
from tempura.warehouse.times.slots import zone_of


@dataclass(frozen=True, slots=True)
class Terms:
    """How a query is to be run, as far as it is said: what is None stays as it was declared."""

    schedule: Schedule | None = None
    methods: Methods | None = None
    require: str | None = None
    state_budget: str | int | None = None
    storage_price: float | None = None

    def applied(self, site: Site, name: str, old: QuerySpec | None) -> tuple[QuerySpec, Demand]:
        """A declaration under these terms of what the query was before, and what it demands of runs. Raises TempuraError BAD_SCHEDULE for
        a deadline that has passed, BAD_TIMEZONE, UNKNOWN_METHOD, BAD_REQUIRE, BAD_BUDGET, BAD_STORAGE_PRICE."""
        timing = self._timing(site, old.schedule if old else None)
        old = old or QuerySpec(timing)
        demand = Demand.of(name, old, self.methods, self.require, site.rules)
        given_budget = old.state_budget if self.state_budget is None else self.state_budget
        given_price = old.storage_price if self.storage_price is None else self.storage_price
        budget, price = check_budget(name, given_budget, timing), check_storage_price(name, given_price, timing)
        changes = {**demand.declared, "schedule": timing, "state_budget": budget, "storage_price": price}
        return replace(old, **changes), demand

    def _timing(self, site: Site, known: Schedule | None) -> Schedule:
        """The schedule that is given, as it is declared now; the one that is known if none is given, or the same. Its time zone is looked
        up now: later every command would ask for it."""
        if self.schedule is None:
            return known or Schedule.view()
        given = check_schedule(self.schedule)
        if given.timezone is not None:
            zone_of(given.timezone)
        if given.deadline is None:
            return given
        if known and known.deadline and known.timezone == given.timezone and given.deadline.is_as(known.deadline):
            return known
        zone = zone_of(given.timezone or site.engine.settings()["spark.sql.session.timeZone"])
        return replace(given, deadline=given.deadline.declared(site.clock(), zone))


def add(catalog: Catalog, name: str, sql: str | None, frame: DataFrame | None, terms: Terms) -> Query:
    """Declare a query by its text or by a DataFrame. Raises TempuraError as :meth:`Warehouse.add_query` does."""
    declared = catalog.declared.queries
    check_name("query", name, declared)
    if (sql is None) == (frame is None):
        raise TempuraError("BAD_QUERY", f"Query {name} needs either sql= or df=.", "Give one of them.")
    _check_text(name, sql)
    spec, demand = terms.applied(catalog.site, name, declared.get(name))
    spec = replace(spec, sql=sql, fingerprint=_mark(catalog, frame) if frame is not None else None)
    query = catalog.made(name, spec, frame)
    query.check_unchanged()
    if demand.incremental:
        check_maintainable(name, query.lifted.rel, demand.methods, catalog.site.rules)
    check_acyclic(query)
    if spec != declared.get(name):
        catalog.site.declarations.put_query(name, spec)
    catalog.remember(query, frame)
    return query


def put_another(
    catalog: Catalog, name: str, sql: str | None, frame: DataFrame | None, terms: Terms, dry_run: bool
) -> ReplaceReport:
    """Put another query in the place of a declared one. Raises TempuraError as :meth:`Warehouse.replace_query` does."""
    old, site = catalog.query_spec(name), catalog.site
    if sql is not None and frame is not None:
        raise TempuraError("BAD_QUERY", f"Query {name} is given as sql= and as df=.", "Give one of them.")
    _check_text(name, sql)
    text = sql if sql is not None or frame is not None else old.sql
    known = (frame if frame is not None else catalog.frame(name)) if text is None else None
    spec, demand = terms.applied(site, name, old)
    mark = _mark(catalog, known) if known is not None else old.fingerprint if text is None else None
    spec = replace(spec, sql=text, fingerprint=mark)
    query = catalog.made(name, spec, known)
    check_acyclic(query)
    if demand.incremental:
        check_maintainable(name, query.lifted_anew.rel, demand.methods, site.rules)
    report = query.replace(lambda: None if spec == old else site.declarations.put_query(name, spec), dry_run)
    if not dry_run:
        catalog.remember(query, known)
    return report


def _check_text(name: str, sql: object) -> None:
    """Raises TempuraError BAD_QUERY for SQL that is no text."""
    if sql is not None:
        check_given(f"Query {name}", QUERY, {"sql": sql})


def _mark(catalog: Catalog, frame: DataFrame) -> str:
    """The fingerprint of a query that is given as a DataFrame."""
    engine = catalog.site.engine
    schemas = {name: table.schema for name, table in catalog.tables().items()}
    return fingerprint(engine.lift(frame, schemas, engine.settings()).rel)
