"""The segments of a query at paces as queries of their own, over what their paths have released."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from tempura.algebra.canonical import fingerprint
from tempura.algebra.rel import Filter, Rel, Scan, renamed
from tempura.algebra.scalar import Expr, disjunction
from tempura.errors import TempuraError
from tempura.frontend.clock import is_clock
from tempura.frontend.lift import Lifted
from tempura.pace import cut as cutting
from tempura.pace.cut import Cut, Operator
from tempura.warehouse.commits.ledger import Ledger
from tempura.warehouse.commits.reads import newest_inputs, newest_life, step_folders, use_of
from tempura.warehouse.declared.declare import QuerySpec, TableSpec
from tempura.warehouse.derived import Compared, Upstream
from tempura.warehouse.engine import Progress, Settings, schema_of
from tempura.warehouse.query import Query
from tempura.warehouse.runs.planning import Planning
from tempura.warehouse.runs.required import Demand
from tempura.warehouse.runs.run import executed
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.uses import Input
from tempura.warehouse.times.flushes import Flush
from tempura.warehouse.times.history import History
from tempura.warehouse.times.phases import LOOKING, PLANNING, Stopwatch
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.slots import Due, Slot
from tempura.warehouse.times.steps import StepManifest

LAST = Schedule(("last",), (1.0,), (True,))
"""Of a flush after which nothing is expected: nothing is kept for later."""


@dataclass(frozen=True, eq=False)
class Part:
    """A segment of a query, which reads its paths: ``inputs`` gives for each name that ``lifted`` scans the number of the path.
    ``is_filtered``: its result has only the rows that somebody reads."""

    number: int
    lifted: Lifted
    inputs: Mapping[str, int]
    is_filtered: bool = False

    def over_paths(self, op: Operator) -> Rel:
        """An operator of the segment over what it reads."""
        return _tree(op, {number: name for name, number in self.inputs.items()})


def parts_of(made: Cut, lifted: Lifted, life: int) -> tuple[Part, ...]:
    """The segments of a query that was cut, in the life at paces of this number. A path from a table is scanned under the table's name;
    further uses of the table in the same segment have names of their own, for they may be at other versions. The columns of the last
    segment are the query's."""
    whole = cutting.cut(lifted.rel, in_twos=False)
    same = [(p.table, p.source, p.into) for p in whole.paths] == [(p.table, p.source, p.into) for p in made.paths]
    # Joins of several relations are left to the planner of each step, which orders them.
    chosen = whole if same else made
    return tuple(_part(segment, chosen.readers(segment), lifted, life) for segment in chosen.segments)


def _part(segment: cutting.Segment, readers: Mapping[Operator, Expr], lifted: Lifted, life: int) -> Part:
    names: dict[int, str] = {}
    seen: dict[str, int] = {}
    for path in segment.paths:
        table = path.table
        if table is None:
            names[path.number] = path_name(path.number, life)
        elif is_clock(table):
            names[path.number] = table
        else:
            names[path.number] = use_of(table, seen.get(table, 0))
            seen[table] = seen.get(table, 0) + 1
    rel = _tree(segment.root, names)
    inputs = {name: number for number, name in names.items()}
    if segment.is_result:
        return Part(segment.number, replace(lifted, rel=renamed(rel, lifted.rel.columns)), inputs)
    # Of a condition on an aggregate few rows may be left: what nobody reads is neither written nor compared with what it was.
    conditions = tuple(dict.fromkeys(readers.values()))
    kept = Filter(rel, disjunction(*conditions)) if conditions else rel
    columns = tuple(f"c{i}" for i in range(len(rel.columns)))
    return Part(segment.number, Lifted(kept, (), columns, len(columns), "{}"), inputs, bool(conditions))


def path_name(number: int, life: int) -> str:
    """What a path from a segment is called where it is scanned: no table's name, and another in each life."""
    return f"path {number} of {life}"


def _tree(node: cutting.Operator | cutting.Path, names: Mapping[int, str]) -> Rel:
    if not isinstance(node, Operator):
        return _leaf(node, node.rel, names)
    inputs = (
        renamed(_tree(below, names), use.columns) if isinstance(below, Operator) else _leaf(below, use, names)
        for below, use in zip(node.inputs, node.rel.inputs, strict=True)
    )
    return node.rel.with_inputs(*inputs)


def _leaf(path: cutting.Path, use: Rel, names: Mapping[int, str]) -> Scan:
    """A path with the columns of a use of it."""
    fields = path.rel.fields if isinstance(path.rel, Scan) else tuple(f"c{i}" for i in range(len(use.columns)))
    return Scan(names[path.number], fields, use.columns)


class PathTable(Arrivals):
    """What a path from a segment has released: each arrival is the net change from the segment's result that was released before to the
    last one. ``reader`` is the ledger of the segment that it leads into; ``compared`` is shared by the paths from the same segment."""

    def __init__(
        self,
        site: Site,
        home: Path,
        name: str,
        source: "Segment",
        reader: Ledger,
        compared: Compared,
    ) -> None:
        schema = site.engine.schema_text(schema_of(site.engine, source.lifted))
        upstream = Upstream(site.engine, name, lambda: source, compared)
        super().__init__(site, name, TableSpec(schema, query=source.name), lambda spec: upstream, home)
        self._reader = reader

    def check_whole(self, version: int) -> None:
        """Raises TempuraError LEDGER_BROKEN when the segment has read a later version than there is."""
        read = newest_inputs(self._reader).get(self.name, 0)
        if read > version:
            what = f"{self.home} has {version} arrivals, and version {read} of them was read: the last are lost."
            remedy = "Restore them from a backup, or begin the query anew"
            command = f"{remedy}: tempura query replace {self.spec.query}"
            raise TempuraError("LEDGER_BROKEN", what, f"{remedy} with replace_query.", command)


class StoredPath(Arrivals):
    """A path's table by what is stored of it, to look after its files."""

    def check_whole(self, version: int) -> None:
        """Nothing is read."""


def stored_segments(site: Site, query: Query) -> tuple[Query, ...]:
    """The segments below the result of a query in its last life at paces, by what is stored of them; none of another query."""
    spec = QuerySpec(query.schedule)
    folders = (steps.parent for steps in step_folders(query.folder, site.files))
    return tuple(Query(site, query.name, spec, {}, folder=f) for f in folders if f != query.folder)


def stored_paths(site: Site, query: Query) -> tuple[Arrivals, ...]:
    """The tables of what paths have released in a query's last life at paces."""
    life = newest_life(query.folder, site.files)
    homes = {int(number): life / "paths" / number for number in site.files.names(life / "paths")} if life else {}
    spec = TableSpec("", query=query.name)
    return tuple(StoredPath(site, path_name(n, int(life.name)), spec, home=home) for n, home in homes.items() if life)


def past_lives(site: Site, query: Query) -> tuple[Path, ...]:
    """What is kept of lives at paces that are over."""
    life = newest_life(query.folder, site.files)
    if life is None or site.files.is_locked(query.folder / "run.lock"):
        return ()
    names = (name for name in site.files.names(life.parent) if name.isdecimal() and name != life.name)
    return tuple(life.parent / name for name in names)


@dataclass(frozen=True, eq=False)
class PartMeaning:
    """What a segment means for as long as its life lasts; ``noted`` are the schemas that its runs note."""

    part: Part
    pinned: Settings
    noted: Mapping[str, str]

    def settings(self, history: History) -> Settings:
        """Those of the life."""
        return self.pinned

    def lifted(self, history: History) -> Lifted:
        """The part over its paths."""
        return self.part.lifted

    def schemas(self, lifted: Lifted) -> Mapping[str, str]:
        """What is noted: the schemas of the query's tables with the segment that gives the result, none with others."""
        return self.noted


class Segment(Query):
    """A segment of a query at paces. Its runs are steps like any other; its tables are its paths, pinned at what they have released.
    ``identity`` is the fingerprint that its runs note, and ``noted`` the schemas."""

    def __init__(
        self,
        site: Site,
        name: str,
        spec: QuerySpec,
        folder: Path,
        part: Part,
        settings: Settings,
        identity: str | None = None,
        noted: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(site, name, replace(spec, outputs=()), {}, folder=folder)
        self.part = part
        self._meaning = PartMeaning(part, settings, noted or {})
        self._identity = identity or fingerprint(part.lifted.rel)

    @property
    def reads(self) -> tuple[Arrivals, ...]:
        """None: what it reads is no table of the warehouse's."""
        return ()

    def last_flush(self, life: int) -> StepManifest | None:
        """Its last step in a life at paces."""
        last = self.committed().last
        return last if last and last.flush and last.flush.life == life else None

    def flush(
        self,
        pins: Mapping[str, Input],
        time: datetime,
        flush: Flush,
        to_come: int,
        demand: Demand,
        progress: Progress | None = None,
        ahead: float | None = None,
    ) -> StepManifest:
        """Run a step over pinned inputs and commit it. ``to_come``: how many flushes of the segment are expected to follow. ``ahead``:
        nobody reads the result of this one, and work counts so many times as much as it does when somebody will: the step has no result,
        and keeps what then saves more than that, if anything. Raises what a run raises."""
        history = self.committed()
        schedule = Schedule.view(to_come + 1) if to_come else LAST
        slot = Slot("", 1 if schedule is LAST else flush.n - 1, flush.label, extra=True)
        about = (self._site, self.name, self._spec, self.folder, self._rules, self._meaning)
        planning = Planning(*about, history, demand, time, pins.__getitem__)
        watch = Stopwatch(self._site.engine.clocks)
        with watch.phase(LOOKING):
            situation = planning.situation(slot, schedule)
            situation = situation if ahead is None else situation.ahead(ahead)
        with watch.phase(PLANNING):
            run = planning.run(Due(slot), planning.sound(situation), watch)
        must = demand.incremental and bool(history.outputs)
        run = replace(run, flush=flush, uses=to_come + 1, incremental=must, fingerprint=self._identity)
        _, manifest = executed(run, progress)
        return manifest
