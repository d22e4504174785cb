"""Several queries run, verified or measured one after the other in one process: to start Spark for each takes longer than many a
refresh."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar, Unpack

from tempura.errors import TempuraError
from tempura.warehouse.derived import Upstream
from tempura.warehouse.engine import Progress, Verification
from tempura.warehouse.query import Methods, Query
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.runs.savings import Recomputation, Savings

T = TypeVar("T")


class Asked(TypedDict, total=False):
    """What is asked of each run, as of :meth:`Query.run`."""

    at: str | None
    methods: Methods | None
    dry_run: bool
    require: str | None
    now: bool
    force: bool
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of a query: what was ``found``, the report of a run or a verification, or the error that it ended with."""

    query: str
    found: T | None = None
    error: Exception | None = None

    @property
    def is_without_result(self) -> bool:
        """Whether the query has no result yet that could be verified or measured."""
        return isinstance(self.error, TempuraError) and self.error.code == "NO_RESULT"


def run_together(
    queries: Sequence[Query], tell: Callable[[Outcome[RunReport]], None], **asked: Unpack[Asked]
) -> tuple[RunReport, ...]:
    """Run queries one after the other, and ``tell`` the outcome of each when it is there. One that fails does not keep the others from
    running: what reads its results finds those of before. Returns the reports; raises TempuraError RUNS_FAILED after the last run if
    any failed."""
    outcomes = _one_by_one(queries, lambda query: query.run(**asked_of(query, asked)), tell)
    failed = [outcome.query for outcome in outcomes if outcome.error]
    if failed:
        what = f"{len(failed)} of {len(outcomes)} queries failed: {', '.join(failed)}."
        raise TempuraError("RUNS_FAILED", what, "Mend what is said of each, and run it again.")
    return tuple(outcome.found for outcome in outcomes if outcome.found)


def verify_together(
    queries: Sequence[Query], tell: Callable[[Outcome[Verification]], None], progress: Progress = lambda text: None
) -> tuple[Outcome[Verification], ...]:
    """Verify queries one after the other, and ``tell`` the outcome of each when it is there. One that cannot be verified does not keep the
    others from it. Returns the outcomes."""
    places = _places(queries)

    def verified(query: Query) -> Verification:
        progress(places[query.name])
        return query.verify()

    return tuple(_one_by_one(queries, verified, tell))


def measure_together(
    queries: Sequence[Query], tell: Callable[[Outcome[Recomputation]], None], progress: Progress = lambda text: None
) -> tuple[Outcome[Recomputation], ...]:
    """Measure what plain Spark takes for queries, one after the other, and ``tell`` the outcome of each when it is there. One that cannot
    be measured does not keep the others from it. Returns the outcomes."""
    places = _places(queries)

    def measured(query: Query) -> Recomputation:
        return query.measure(lambda text: progress(f"{places[query.name]}: {text}"))

    return tuple(_one_by_one(queries, measured, tell))


def savings_of(queries: Sequence[Query]) -> tuple[Outcome[Savings], ...]:
    """What the runs of queries took, against recomputing. One that cannot be told of does not hide the others."""
    return tuple(outcome_of(query, lambda query: query.savings()) for query in queries)


def _places(queries: Sequence[Query]) -> dict[str, str]:
    """Which of how many each query is, for people."""
    return {query.name: f"{query.name} ({n} of {len(queries)})" for n, query in enumerate(queries, 1)}


def _one_by_one(
    queries: Sequence[Query], work: Callable[[Query], T], tell: Callable[[Outcome[T]], None]
) -> list[Outcome[T]]:
    outcomes = []
    for query in queries:
        outcomes.append(outcome_of(query, work))
        tell(outcomes[-1])
    return outcomes


def outcome_of(query: Query, work: Callable[[Query], T]) -> Outcome[T]:
    """What becomes of a query by some work."""
    try:
        return Outcome(query.name, work(query))
    except Exception as error:  # a defect, too: the other queries do not have it
        return Outcome(query.name, error=error)


def asked_of(query: Query, asked: Asked) -> Asked:
    """The same, with progress that names the query."""
    asked, progress = asked.copy(), asked.get("progress")
    if progress:
        asked["progress"] = lambda text: progress(f"{query.name}: {text}")
    return asked


def upstream_first(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Queries in the order given, but each after those of them whose results it reads, through however many tables and others. One that
    has not run is lifted for that."""
    ordered: dict[str, Query] = {}
    given = {query.name for query in queries}
    passed: set[str] = set()

    def place(query: Query) -> None:
        if query.name in passed:
            return
        passed.add(query.name)
        for above in _read_by(query):
            place(above)
        if query.name in given:
            ordered[query.name] = query

    for query in queries:
        place(query)
    return tuple(ordered.values())


def _read_by(query: Query) -> Iterator[Query]:
    """The queries whose results a query reads; none if it cannot be lifted, which its run will say."""
    try:
        feeds = [table.feed for table in query.known_reads]
    except Exception:
        return
    for feed in feeds:
        if isinstance(feed, Upstream):
            yield feed.query()
