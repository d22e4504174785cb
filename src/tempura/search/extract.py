"""From chosen alternatives to a progressive plan: per time point a DAG, with saves for what later times load."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from tempura.algebra.rel import Aggregate, Consolidate, Filter, Join, Project, Rel, renamed
from tempura.algebra.scalar import Call, Column, Expr, Ref, conjuncts
from tempura.physical.growth import Growth, growth
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
        self._open: dict[Goal, None] = {}
        self._built: dict[Goal, Rel] = {}
        self._saved: dict[Goal, None] = {}
        self._notes: dict[int, dict[Rel, Note]] = {}
        self._joins: dict[Join, Join] = {}
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
        """The bytes of each state that is saved, or that was saved before and stays for a later step, after :meth:`steps`."""
        graph = self._graph
        saved = {(goal.time, graph.key(goal.view)): goal.view for goal in self._saved}
        stay = {(graph.problem.first, graph.key(goal.view)): goal.view for goal in self._stay()}
        return tuple(map(graph.size, {**stay, **saved}.values()))

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
        self._notes[t].setdefault(emitted, self._notes[t][built])
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
                self._built[goal] = self._expand(way.rhs, goal, way, {})
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
                estimate = self._graph.estimate
                cost, fixed = self._graph.space.parts(rel)
                name, defined = (way.rule.name, way.rule.by_definition) if way.rule else ("", False)
                sizes, counted = self._sizes(rel), self._graph.counts.rows(rel) is not None
                about = Note(estimate.rows(rel), cost, name, fixed=fixed, by_definition=defined)
                note = replace(about, sizes=sizes, counted=counted)
                self._notes.setdefault(goal.time, {}).setdefault(done[rel], note)
        return done[rel]

    def _note(self, goal: Goal, way: Alternative) -> None:
        """Say on the topmost operator which view it computes."""
        rel, rows = self._built[goal], self._graph.estimate.rows(goal.view)
        notes = self._notes.setdefault(goal.time, {})
        known = notes.get(rel)
        if known is None:
            cost, fixed = self._load_parts(goal, way) if isinstance(rel, Load) else (0, 0)
            known = Note(rows, cost, fixed=fixed)
        sizes = dict.fromkeys((*known.sizes, *self._sizes(goal.view)))
        notes[rel] = replace(known, view=known.view or goal.view.label, sizes=tuple(sizes))

    def _load_parts(self, goal: Goal, way: Alternative) -> tuple[int, int]:
        """What it costs to load a view. A view that a rule says is another one is loaded for that."""
        if way.rule is not None:
            return 0, 0
        return self._graph.load_parts(goal.view, self._graph.lies(goal, way, self._chosen.__getitem__))

    def _sizes(self, rel: Rel) -> tuple[Size, ...]:
        size = self._graph.counts.size(rel)
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
        keys: dict[StateKey, Goal] = {}
        for goal in self._saved:
            if goal.time == t:
                keys.setdefault(self._graph.key(goal.view), goal)
        saves = tuple(
            Save(key, self._built[g], self._bucket(key, g.view), self._graph.size(g.view)) for key, g in keys.items()
        )
        roots = [save.rel for save in saves] + ([emit] if emit is not None else [])
        nodes = dict.fromkeys(rel for root in roots for rel in root.walk())
        notes = {rel: self._notes[t][rel] for rel in nodes if rel in self._notes.get(t, {})}
        notes |= self._ways_to_join(notes)
        parts = [(note.cost, note.fixed) for note in notes.values()]
        parts += [self._save_parts(save, t) for save in saves]
        parts += [self._write_parts(emit, t)] if emit is not None else []
        kept = self._kept() if saves and t == self._graph.problem.first else {}
        notes = {**{save.rel: note for save, note in kept.values()}, **notes}
        saves = (*saves, *(save for save, _ in kept.values()))
        made = Step(t, saves, emit, sum(cost for cost, _ in parts), notes, sum(fixed for _, fixed in parts))
        return consolidated_late(made, self._graph.facts, self._graph.estimate, self._graph.model)

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

    def _save_parts(self, save: Save, t: int) -> tuple[int, int]:
        """What it costs to save a relation, of what it grows from only the delta, and the part of it that does not depend on rows."""
        if isinstance(save.rel, Load):
            return 0, 0
        found = growth(save.rel)
        return self._write_parts(found.delta if found and self._stays(found, save) else save.rel, t, bool(save.bucket))

    def _stays(self, found: Growth, save: Save) -> bool:
        """Whether what a state grows from lies as the state is to lie."""
        assert isinstance(found.base, Load)
        lies = self._graph.problem.stored.get(found.base.key)
        return lies is None or save.key.kind == "state" or lies.bucket == save.bucket

    def _write_parts(self, rel: Rel, t: int, shuffled: bool = False) -> tuple[int, int]:
        """What it costs to write a relation, and the part of it that does not depend on rows."""
        rows, width = self._rows(rel, t), self._graph.estimate.width(rel)
        return self._graph.model.parts(lambda model: model.write(rows, width, shuffled))

    def _rows(self, rel: Rel, t: int) -> float:
        note = self._notes.get(t, {}).get(rel)
        return note.rows if note else sum(self._rows(i, t) for i in rel.inputs)


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
