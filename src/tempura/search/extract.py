"""From chosen alternatives to a progressive plan: per time point a DAG, with saves for what later times load."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tempura.algebra.rel import Aggregate, Consolidate, Filter, Join, Project, Rel, renamed
from tempura.algebra.scalar import Call, Column, Expr, Ref, conjuncts
from tempura.cost.stats import StoredFacts
from tempura.physical.growth import Growth, growth
from tempura.physical.narrowing import read_whole
from tempura.physical.operators import Load, StateKey
from tempura.plan.progressive import Note, Save, Size, Step
from tempura.rules.dsl import Rule
from tempura.search.consolidation import consolidated_late
from tempura.search.graph import ONE_PART, Alternative, Graph
from tempura.search.space import Goal
from tempura.tvr.views import State, View


class CyclicPlanError(Exception):
    """The chosen alternatives depend on each other in a circle; the message names the goals."""


class Extraction:
    """Builds the steps of the plan that ``chosen`` describes. ``used`` are the rules that made it."""

    def __init__(self, graph: Graph, chosen: Mapping[Goal, Alternative]) -> None:
        self._graph = graph
        self._chosen = chosen
        self._way = chosen.__getitem__
        self._open: dict[Goal, None] = {}
        self._built: dict[Goal, Rel] = {}
        self._saved: dict[Goal, None] = {}
        self._notes: dict[int, dict[Rel, Note]] = {}
        self._joins: dict[Join, Join] = {}
        self._selecting: dict[int, dict[Rel, Rel]] = {}
        self._loads: dict[int, dict[Rel, tuple[View, StoredFacts]]] = {}
        self.used: dict[tuple[Rule, Rel], None] = {}

    @property
    def reached(self) -> tuple[Goal, ...]:
        """The goals that the plan reaches, after :meth:`steps`."""
        return tuple(self._built)

    def steps(self) -> tuple[Step, ...]:
        """One step per time point at which work can run. Raises CyclicPlanError."""
        points = self._graph.problem.points
        times = range(self._graph.problem.first, len(points))
        emits = {t: self._emitted(t) for t in times if points[t].output}
        self._build_saved()
        return tuple(self._step(t, emits.get(t)) for t in times)

    def kept_sizes(self) -> tuple[float, ...]:
        """The bytes that each state takes that is saved, or that was saved before and stays for a later step, after :meth:`steps`."""
        graph = self._graph
        saved = {(goal.time, graph.key(goal.view)): graph.own_size(goal) for goal in self._saved}
        stay = {(graph.problem.first, graph.key(goal.view)): graph.size(goal.view) for goal in self._stay()}
        return tuple({**stay, **saved}.values())

    def _stay(self) -> Iterator[Goal]:
        """What steps after the first load of what was saved before."""
        for goal in self.reached:
            way = self._chosen[goal]
            if goal.time > self._graph.problem.first and way.rule is None and not way.goals:
                yield goal

    def _emitted(self, t: int) -> Rel:
        """The query's result in the query's columns, which may be other than those of its class."""
        built = self._build(self._graph.output(t))
        emitted = renamed(built, self._graph.query.columns)
        self._notes[t].setdefault(emitted, replace(self._notes[t][built], cost=0, fixed=0))
        return emitted

    def _build_saved(self) -> None:
        """Build what has to be saved, until nothing new has to be saved for that."""
        pending = [goal for goal in self._saved if goal not in self._built]
        while pending:
            for goal in pending:
                self._build(goal)
            pending = [goal for goal in self._saved if goal not in self._built]

    def _build(self, goal: Goal) -> Rel:
        if goal not in self._built:
            way = self._chosen[goal]
            self._enter(goal)
            if way.rule is None:
                self._saved.update(dict.fromkeys(way.goals))
                self._built[goal] = way.rhs
            else:
                self.used[way.rule, way.member or goal.view.tvr] = None
                done: dict[Rel, Rel] = {}
                self._built[goal] = self._expand(way.rhs, goal, way, done)
                self._look_closer(goal, way, done)
            self._note(goal, way)
            del self._open[goal]
        return self._built[goal]

    def _enter(self, goal: Goal) -> None:
        if goal in self._open:
            raise CyclicPlanError(" -> ".join(str(g) for g in [*self._open, goal]))
        self._open[goal] = None

    def _expand(self, rel: Rel, goal: Goal, way: Alternative, done: dict[Rel, Rel]) -> Rel:
        """``rel`` with its views replaced by how they are computed at the goal's time."""
        if rel not in done:
            if isinstance(rel, View):
                done[rel] = self._build(self._graph.goal(rel, goal.time))
            else:
                inputs = tuple(self._expand(i, goal, way, done) for i in rel.inputs)
                done[rel] = built = rel.with_inputs(*inputs) if inputs else rel
                if isinstance(rel, Join) and isinstance(built, Join):
                    self._joins[rel] = built
                notes = self._notes.setdefault(goal.time, {})
                if built not in notes:
                    notes[built] = self._about(rel, goal, way)
        return done[rel]

    def _about(self, rel: Rel, goal: Goal, way: Alternative) -> Note:
        """What is known of an operator."""
        rows, (cost, fixed) = self._graph.estimate.rows(rel), self._graph.space.parts(rel)
        name, defined = (way.rule.name, way.rule.by_definition) if way.rule else ("", False)
        sizes, counted = self._sizes(rel, goal.time), self._graph.counts.rows(rel) is not None
        return Note(rows, cost, name, fixed=fixed, by_definition=defined, sizes=sizes, counted=counted)

    def _look_closer(self, goal: Goal, way: Alternative, done: dict[Rel, Rel]) -> None:
        """Note what comes to a view that grows, and which joins select groups of what may be loaded."""
        if grown := self._graph.growth_by(goal, way):
            self._expand(grown.delta, goal, way, done)
        loads, selecting = self._loads.get(goal.time, {}), self._selecting.setdefault(goal.time, {})
        for found in self._graph.selected(way):
            if (load := done[found.view]) in loads:
                selecting.update((done[join], load) for join in found.joins)

    def _note(self, goal: Goal, way: Alternative) -> None:
        """Say on the topmost operator which view it computes."""
        rel, rows = self._built[goal], self._graph.estimate.rows(goal.view)
        notes = self._notes.setdefault(goal.time, {})
        known = notes.get(rel)
        if known is None:
            if isinstance(rel, Load) and way.rule is None:
                lies = self._graph.lies(goal, way, self._chosen.__getitem__)
                self._loads.setdefault(goal.time, {})[rel] = goal.view, lies
            known = Note(rows, 0)
        sizes = dict.fromkeys((*known.sizes, *self._sizes(goal.view, goal.time)))
        notes[rel] = replace(known, view=known.view or goal.view.label, sizes=tuple(sizes))

    def _sizes(self, rel: Rel, t: int) -> tuple[Size, ...]:
        """What the rows of an operator are worth remembering as, of the step that may be run."""
        size = self._graph.counts.size(rel) if t == self._graph.problem.first else None
        return (size,) if size else ()

    # --- buckets ---

    def _bucket(self, key: StateKey, view: View) -> tuple[int, ...]:
        """The positions of the columns by which a stored view is bucketed: the group keys of an aggregation state, which its
        merge uses, or the columns by which the first join that would shuffle it matches. Empty when there is none."""
        if isinstance(view.at, State):
            assert isinstance(view.tvr, Aggregate)
            return tuple(range(len(view.tvr.keys)))
        return next((positions for load, positions in self._shuffled_loads if load.key == key and positions), ())

    @cached_property
    def _shuffled_loads(self) -> list[tuple[Load, tuple[int, ...]]]:
        """What large joins load, with the positions of the columns by which they match."""
        joins = [join for join in self._joins if not self._graph.model.broadcast_sides(join, self._graph.estimate)]
        return [found for join in joins for found in _loads_below(self._joins[join])]

    # --- steps ---

    def _step(self, t: int, emit: Rel | None) -> Step:
        graph, result = self._graph, self._graph.output(t) if emit is not None else None
        keys: dict[StateKey, Goal] = {}
        for goal in self._saved:
            if goal.time == t:
                keys.setdefault(graph.key(goal.view), goal)
        saves = tuple(self._save(key, goal) for key, goal in keys.items())
        buckets = {keys[save.key]: save.bucket for save in saves}
        sinks = dict.fromkeys((*keys.values(), *((result,) if result else ())))
        written = {goal: self._growth(goal, buckets.get(goal, ())) for goal in sinks if not self._stays(goal)}
        computed = [found.delta if found else self._built[goal] for goal, found in written.items()]
        roots = (*(save.rel for save in saves), *((emit,) if emit is not None else ()), *computed)
        nodes = dict.fromkeys(rel for root in roots for rel in root.walk())
        notes = {rel: self._notes[t][rel] for rel in nodes if rel in self._notes.get(t, {})}
        notes |= self._ways_to_join(notes)
        notes |= self._loads_and_idle(t, notes, computed)
        parts = [(note.cost, note.fixed) for note in notes.values()]
        parts += [self._write_parts(goal, found, bool(buckets.get(goal))) for goal, found in written.items()]
        kept = self._kept() if saves and t == graph.problem.first else {}
        notes = {**{save.rel: note for save, note in kept.values()}, **notes}
        saves = (*saves, *(save for save, _ in kept.values()))
        cost, fixed = sum(cost for cost, _ in parts), sum(fixed for _, fixed in parts)
        appends = result is not None and (result not in written or written[result] is not None)
        reading = graph.reading(result, self._way) if result else 0
        made = Step(t, saves, emit, cost, notes, fixed, appends=appends, reading=reading)
        return consolidated_late(made, graph.facts, graph.estimate, graph.model)

    def _save(self, key: StateKey, goal: Goal) -> Save:
        graph, bucket = self._graph, self._bucket(key, goal.view)
        return Save(key, self._built[goal], bucket, graph.own_size(goal), graph.is_plain(goal.view))

    def _stays(self, goal: Goal) -> bool:
        """Whether what is to be stored is stored already, as it has to be."""
        graph, way = self._graph, self._chosen[goal]
        anew = graph.is_result(goal) and way.rule is None and not graph.stays(goal, way, self._way)
        return isinstance(self._built[goal], Load) and not anew

    def _loads_and_idle(self, t: int, notes: Mapping[Rel, Note], computed: Sequence[Rel]) -> dict[Rel, Note]:
        """The notes of operators that nobody asks for, and of loads, by what is asked of them."""
        selecting, loads = self._selecting.get(t, {}), self._loads.get(t, {})
        busy = dict.fromkeys(rel for root in computed for rel in root.walk())
        whole = set(read_whole(computed, selecting.__contains__))
        found = {rel: replace(note, cost=0, fixed=0) for rel, note in notes.items() if rel not in busy}
        for load in (rel for rel in busy if rel in loads):
            selected = (join for join, of in selecting.items() if of == load and join in busy)
            rows = sum(round(notes[join].rows) for join in selected) if loads[load][1].grouped else 0
            cost, fixed = self._graph.load_parts(*loads[load], load in whole, rows)
            found[load] = replace(notes[load], cost=cost, fixed=fixed)
        return found

    def _kept(self) -> dict[StateKey, tuple[Save, Note]]:
        """What is kept of the past with what the first step saves, for later steps that load it: of a past before the last step that
        saved something nothing is known. The step itself need not read it, so that costs nothing."""
        problem, found = self._graph.problem, dict[StateKey, tuple[Save, Note]]()
        for goal in filter(lambda goal: self._graph.is_kept(goal.view), self._stay()):
            key = self._graph.key(goal.view)
            note = Note(self._graph.estimate.rows(goal.view), 0, view=goal.view.label)
            bucket, size = problem.stored.get(key, ONE_PART).bucket, self._graph.size(goal.view)
            found[key] = Save(key, self._chosen[goal].rhs, bucket, size), note
        return found

    def _ways_to_join(self, notes: Mapping[Rel, Note]) -> dict[Rel, Note]:
        """The notes of joins of which a side is sent to every task, or held in a table by each."""
        model, estimate = self._graph.model, self._graph.estimate
        found: dict[Rel, Note] = {}
        for join, built in self._joins.items():
            if built not in notes:
                continue
            side = next(iter(model.broadcast_sides(join, estimate)), None)
            held = model.held_side(join, estimate) if side is None else None
            found[built] = replace(notes[built], broadcast=side, held=held)
        return found

    def _growth(self, goal: Goal, bucket: tuple[int, ...]) -> Growth | None:
        """How what is to be stored grows out of what lies as it is to lie; None when it does not."""
        graph, found = self._graph, growth(self._built[goal])
        if found is None or graph.grown(goal, self._way) is None:
            return None
        assert isinstance(found.base, Load)
        lies = graph.problem.stored.get(found.base.key)
        is_state = isinstance(goal.view.at, State)
        return found if lies is None or is_state or lies.bucket == bucket else None

    def _write_parts(self, goal: Goal, found: Growth | None, shuffled: bool) -> tuple[int, int]:
        """What it costs to write a view, of what it grows from only the delta, and the part of it that does not depend on rows."""
        graph = self._graph
        grown = graph.growth_by(goal, self._chosen[goal]) if found else None
        rows, width = graph.estimate.rows(grown.delta if grown else goal.view), graph.estimate.width(goal.view)
        return graph.model.parts(lambda model: model.write(rows, width, shuffled))


def _loads_below(join: Join) -> Iterator[tuple[Load, tuple[int, ...]]]:
    """The stored views that reach a join as they are, row by row, and the positions of the columns that the join compares."""
    for side in join.inputs:
        matched = set(_matched_columns(join.on))
        while isinstance(side, Filter | Project | Consolidate):
            if isinstance(side, Project):
                kept = (o.expr for o in side.outputs if o.column in matched)
                matched = {expr.column for expr in kept if isinstance(expr, Ref)}
            side = side.input
        if isinstance(side, Load):
            yield side, tuple(i for i, column in enumerate(side.outputs) if column in matched)


def _matched_columns(on: Expr) -> Iterator[Column]:
    for part in conjuncts(on):
        if isinstance(part, Call) and part.function in ("EqualTo", "EqualNullSafe"):
            yield from (arg.column for arg in part.operands if isinstance(arg, Ref))
