"""Several queries run, or verified, one after the other in one process: starting Spark for each takes longer than many a refresh."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from tempura.errors import TempuraError
from tempura.warehouse.derived import Upstream
from tempura.warehouse.engine import Progress, Verification
from tempura.warehouse.query import Methods, Query
from tempura.warehouse.runs.report import RunReport


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
class Outcome:
    """What became of a query's run: its report, or the error that it ended with."""

    query: str
    report: RunReport | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """What became of a query's verification: what was found, or the error that it ended with."""

    query: str
    found: Verification | None = None
    error: Exception | None = None

    @property
    def is_without_result(self) -> bool:
        """Whether there is nothing to verify yet."""
        return isinstance(self.error, TempuraError) and self.error.code == "NO_RESULT"


def verify_together(
    queries: Sequence[Query], tell: Callable[[Verified], None], progress: Progress | None = None
) -> tuple[Verified, ...]:
    """Verify queries one after the other, and ``tell`` what is found of each when it is there. One that cannot be verified does not keep
    the others from it."""
    found: list[Verified] = []
    for query in queries:
        if progress:
            progress(f"{query.name} ({len(found) + 1} of {len(queries)})")
        found.append(_verified(query))
        tell(found[-1])
    return tuple(found)


def _verified(query: Query) -> Verified:
    try:
        return Verified(query.name, query.verify())
    except Exception as error:  # a defect, too: the other queries do not have it
        return Verified(query.name, error=error)


def run_together(
    queries: Sequence[Query], tell: Callable[[Outcome], None], **asked: Unpack[Asked]
) -> tuple[RunReport, ...]:
    """Run queries one after the other, and ``tell`` the outcome of each when it is there. One that fails does not keep the others from
    running: what reads its results finds those of before. Returns the reports; raises TempuraError RUNS_FAILED after the last run if
    any failed."""
    outcomes = []
    for query in queries:
        outcomes.append(_outcome(query, asked))
        tell(outcomes[-1])
    failed = [outcome.query for outcome in outcomes if outcome.error]
    if failed:
        what = f"{len(failed)} of {len(outcomes)} queries failed: {', '.join(failed)}."
        raise TempuraError("RUNS_FAILED", what, "Mend what is said of each, and run it again.")
    return tuple(outcome.report for outcome in outcomes if outcome.report)


def _outcome(query: Query, asked: Asked) -> Outcome:
    asked, progress = asked.copy(), asked.get("progress")
    if progress:
        asked["progress"] = lambda text: progress(f"{query.name}: {text}")
    try:
        return Outcome(query.name, query.run(**asked))
    except Exception as error:  # a defect, too: the other queries do not have it
        return Outcome(query.name, error=error)


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
