"""A-Caching: a continuous join that chooses its own join orders and caches, and changes them when conditions do.

Source: *Adaptive Caching for Continuous Queries*, sections 4.2 and 4.5, with its refinements: a used cache that does not pay any more is
dropped at once (a); used caches stay in use while others are profiled, but for those that hide the probes of another (b); caches are
selected anew only when some statistic has changed by more than a share p (c).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from tempura.streams.appraisal import Appraisal, appraise
from tempura.streams.approximation import greedy
from tempura.streams.cache import ENTRY_BYTES, REFERENCE_BYTES, TUPLE_BYTES, Cache, Group
from tempura.streams.candidates import Candidate, Orders, all_candidates, is_possible, prefix_candidates
from tempura.streams.clock import Clock, Seconds
from tempura.streams.events import Events
from tempura.streams.execution import CachedJoin, Changes
from tempura.streams.measuring import Measuring
from tempura.streams.memory import Need, allocate
from tempura.streams.ordering import improved
from tempura.streams.pipeline import Pipeline
from tempura.streams.profiler import Profiler
from tempura.streams.query import JoinQuery
from tempura.streams.selection import Priced, Problem, exhaustive, recursive
from tempura.streams.settings import DEFAULT, Settings
from tempura.streams.statistics import Average, ProbeWindows
from tempura.streams.steps import arranger
from tempura.streams.store import Tuple

EXHAUSTIVE_INPUTS = 6
"""Up to so many inputs shared caches are chosen by exhaustive search (section 4.4)."""


class AdaptiveJoin(CachedJoin):
    """See the module. ``memory`` is the bytes that caches may take, None for any; it may be set at any time. ``events`` are the
    decisions, each with its numbers."""

    def __init__(
        self,
        query: JoinQuery,
        memory: int | None = None,
        settings: Settings = DEFAULT,
        clock: Clock | None = None,
        orders: Orders | None = None,
    ) -> None:
        self.settings = settings
        self.events = Events(tuple(input.name for input in query.inputs))
        self.clock = clock or Seconds()
        self._memory = memory
        self._windows_of: dict[Candidate, ProbeWindows] = {}
        self._observed: dict[Group, Average] = {}
        self._probed: dict[Group, int] = {}
        self._suspended: tuple[Candidate, ...] = ()
        self._appraised: dict[Candidate, Appraisal] = {}
        self._plain: dict[int, Pipeline] = {}
        self._candidates_of: tuple[Orders, list[Candidate]] = ((), [])
        super().__init__(query, orders)
        self.profiler = Profiler(query, self.stores, self.clock, settings.rows)
        self.profiler.renew(self.orders)
        self.measuring = Measuring(settings, self.clock, len(query.inputs))
        self._phase_began = 0
        self._next_tick = 0
        self._next_phase = 0
        self._profiling = True
        self._countdown = 0
        self._rates: Sequence[float] = ()
        self._begin_phase()

    # --- executing -----------------------------------------------------------------------------------------------------

    def attend(self, input: int, inserted: Sequence[Tuple], deleted: Sequence[Tuple]) -> Changes:
        """Time a batch as it is; then, if there is time for that, measure the first row of the next one of the input whose turn it is.
        And see whether anything is due."""
        self._countdown = 1
        measuring = self.measuring
        if measuring.is_waiting and input == measuring.turn and inserted:
            changes = self._measured(input, inserted, deleted)
            self._countdown = measuring.batches_until_next(self._profiling, self.profiler.is_complete)
        elif measuring.is_waiting:
            changes = self.change(input, inserted, deleted)
            self._countdown = 0
        else:
            work = partial(self.change, input, inserted, deleted)
            changes = measuring.time(len(inserted) + len(deleted), work)
            self._countdown = measuring.batches_until_allowed(self.processed, self.profiler.is_settled)
        if self.processed >= self._next_tick:
            self._tick()
        return changes

    def _measured(self, input: int, inserted: Sequence[Tuple], deleted: Sequence[Tuple]) -> Changes:
        """Process a batch, its first row without caches."""
        if input not in self._plain:
            self._plain[input] = self.compile(input, [c for c in self.used if c.pipeline != input])
        plain = self._plain[input]
        tuples = self.measuring.measure(lambda: self.profiler.measure(plain, [inserted[0]]))
        self.stores[input].insert(inserted[:1])
        rest = self.change(input, inserted[1:], deleted)
        self.counts[input] += 1
        arrange = arranger(plain.layout, rest.layout)
        return Changes(rest.layout, [arrange(t) for t in tuples] + rest.inserted, rest.deleted)

    def _set(self, used: Sequence[Candidate]) -> None:
        self._plain = {}
        super()._set(used)

    def groups_kept(self, used: Sequence[Candidate]) -> list[Group]:
        """Caches that are suspended while others are profiled are kept up to date."""
        return super().groups_kept((*used, *self._suspended))

    def compile(self, input: int, used: Sequence[Candidate]) -> Pipeline:
        watched = {c: windows for c, windows in self._windows_of.items() if c.pipeline == input}
        if not watched:
            return super().compile(input, used)
        return Pipeline(self.query, self.stores, self.orders, input, used, self.caches, watched)

    # --- adapting ------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """What is looked at again and again: measurements, orders, caches in use, the end of a phase."""
        self._next_tick = self.processed + max(1, self.settings.interval // (16 if self._profiling else 10))
        self.profiler.rates.tick(self.counts)
        self._observe_misses()
        if self.settings.ordering and self._repair_orders():
            return
        if not self.settings.caching:
            self._profiling = self._profiling and not self.profiler.is_complete
            return
        moved = bool(self._rates) and self.profiler.rates.have_moved(self._rates, self.settings.threshold)
        if moved:
            self.profiler.rates.forget()
        if self._profiling:
            if self._is_profiled():
                self._end_phase()
            return
        self._drop_losing()
        if self.processed >= (self._phase_began + self.settings.interval // 2 if moved else self._next_phase):
            self._begin_phase()

    def _observe_misses(self) -> None:
        """The share of misses of each cache in use, once it has been probed often enough to hold what is asked for: a cache begins
        empty, and what it misses until then says nothing of what it is worth."""
        for group, cache in self.caches.items():
            if cache.probes >= 64:
                probes, misses = cache.take_counts()
                known = [a.keys for c, a in self._appraised.items() if c.group == group]
                if self._probed.get(group, 0) >= 2 * max([len(cache.entries), *known]) + 640:
                    self._observed.setdefault(group, Average()).add(misses / probes)
                self._probed[group] = self._probed.get(group, 0) + probes

    def _repair_orders(self) -> bool:
        """Whether A-Greedy changed an order; then caches of that pipeline are gone, and candidates are profiled anew."""
        orders = tuple(map(self._improved, range(len(self.orders)), self.orders))
        if orders == self.orders:
            return False
        names = self.events.names
        for n, (old, new) in enumerate(zip(self.orders, orders, strict=True)):
            if old != new:
                fanouts = {
                    names[o]: round(a.value, 3) for (place, o), a in self.profiler.joins[n].fanouts.items() if not place
                }
                self.events.add(
                    self.processed, "reorder", pipeline=names[n], order=[names[o] for o in new], fanouts=fanouts
                )
        self._windows_of, self._suspended = {}, ()
        self.reorder(orders)
        self.profiler.renew(orders)
        self._begin_phase()
        return True

    def _improved(self, input: int, order: tuple[int, ...]) -> tuple[int, ...]:
        """The order of a pipeline, repaired if a row that was measured since the last look says so."""
        joins = self.profiler.joins[input]
        if not joins.is_new:
            return order
        joins.is_new = False
        return improved(order, joins, partial(self.profiler.looks, input))

    def candidates(self) -> list[Candidate]:
        """What may be cached with the current orders."""
        if self._candidates_of[0] != self.orders:
            found = (
                all_candidates(self.query, self.orders, self.settings.quota)
                if self.settings.quota
                else prefix_candidates(self.query, self.orders)
            )
            self._candidates_of = self.orders, found
        return self._candidates_of[1]

    def _begin_phase(self) -> None:
        """Profile the candidates that are not in use."""
        self._phase_began = self.processed
        self._profiling = True
        self._countdown = 0
        self._next_tick = min(self._next_tick, self.processed + max(1, self.settings.interval // 16))
        if not self.settings.caching:
            return
        profiled = [c for c in self.candidates() if c not in self.used]
        hidden = [u for u in self.used if any(u.pipeline == c.pipeline and u.start < c.start < u.end for c in profiled)]
        self._windows_of = {c: ProbeWindows(self.settings.probes) for c in profiled}
        self._suspended = tuple(hidden)
        self._set([u for u in self.used if u not in hidden])
        if profiled:
            self.events.add(self.processed, "profile", candidates=[self.events.cache(c) for c in profiled])

    def _is_profiled(self) -> bool:
        """Whether each statistic has W observations, or half an interval is over: what is rare is then taken as it is known."""
        late = self.processed - self._phase_began >= self.settings.interval // 2
        return late or (self.profiler.is_complete and all(w.misses.is_complete for w in self._windows_of.values()))

    def _end_phase(self) -> None:
        """Select caches if anything has changed since they were selected last."""
        windows, suspended = self._windows_of, self._suspended
        self._windows_of, self._suspended = {}, ()
        self._profiling = False
        self._next_phase = self._phase_began + self.settings.interval
        self._rates = self.profiler.rates.shares()
        known = (*self.used, *suspended)
        found = self._appraisals([c for c in self.candidates() if c in windows or c in known], windows)
        if not self._has_changed(found):
            self._set(known)
            return
        self._appraised = found
        self._select(found)

    def _appraisals(
        self, candidates: Iterable[Candidate], windows: Mapping[Candidate, ProbeWindows]
    ) -> dict[Candidate, Appraisal]:
        """What caches are worth now, of those whose pipelines and probes have been seen."""
        found = {}
        for c in candidates:
            keys, misses = self._misses(c, windows.get(c))
            if misses is not None and len(self.profiler.joins[c.pipeline].tuples[0]):
                found[c] = appraise(self.profiler, self.clock, self.query, c, misses, keys)
        return found

    def _misses(self, c: Candidate, windows: ProbeWindows | None) -> tuple[float, float | None]:
        """The expected keys of a cache, and the share of its probes that miss: observed when it is in use and filled, else by the Bloom
        filter, else as before."""
        known, cache = self._appraised.get(c), self.caches.get(c.group)
        keys = max(windows.distinct if windows else 0.0, float(len(cache.entries)) if cache else 0.0)
        if c in self.used and c.group in self._observed:
            return keys, self._observed[c.group].value
        if windows is not None:
            return keys, windows.miss_probability
        return keys, known.misses if known else None

    def _has_changed(self, found: Mapping[Candidate, Appraisal]) -> bool:
        """Refinement c: whether the benefit or cost of some candidate has changed by more than p."""
        if found.keys() != self._appraised.keys():
            return True
        p = self.settings.threshold
        pairs = ((found[c], self._appraised[c]) for c in found)
        return any(
            abs(new - old) > p * max(abs(old), 1e-12)
            for one, other in pairs
            for new, old in ((one.benefit, other.benefit), (one.upkeep, other.upkeep))
        )

    def _select(self, found: Mapping[Candidate, Appraisal]) -> None:
        joins = {
            (n, place): self.profiler.joining_cost(n, place)
            for n, order in enumerate(self.orders)
            for place in range(len(order))
        }
        priced = tuple(Priced(c, a.proc, a.upkeep) for c, a in found.items())
        problem = Problem(joins, priced, lambda used: is_possible(self.query, self.orders, used))
        chosen = self._optimum(problem)
        without, cost = problem.total([]), problem.total(chosen)
        self._use([p.candidate for p in chosen], found)
        self.events.add(
            self.processed,
            "select",
            used=[self.events.cache(c) for c in self.used],
            cost=cost,
            cost_without=without,
            candidates={self.events.cache(c): a.numbers() for c, a in found.items()},
        )

    def _optimum(self, problem: Problem) -> list[Priced]:
        prefix = set(prefix_candidates(self.query, self.orders))
        is_prefix = all(p.candidate in prefix for p in problem.candidates)
        if is_prefix and not problem.is_shared:
            return recursive(problem)
        if not is_prefix or len(self.query.inputs) <= EXHAUSTIVE_INPUTS:
            return exhaustive(problem)
        return greedy(problem)

    def _drop_losing(self) -> None:
        """Refinement a: a cache whose benefit has fallen below its cost goes at once."""
        found = self._appraisals(self.used, {})
        gains = {g: sum(a.benefit for c, a in found.items() if c.group == g) for g in self.caches}
        upkeep = {c.group: a.upkeep for c, a in found.items()}
        losing = {g for g, gain in gains.items() if g in upkeep and gain < upkeep[g]}
        if losing:
            for g in sorted(losing, key=lambda g: g.inputs):
                self.events.add(
                    self.processed, "drop", cache=g.label(self.events.names), benefit=gains[g], cost=upkeep[g]
                )
            self._use([c for c in self.used if c.group not in losing], self._appraised)

    # --- memory --------------------------------------------------------------------------------------------------------

    @property
    def memory(self) -> int | None:
        """The bytes that caches may take."""
        return self._memory

    @memory.setter
    def memory(self, budget: int | None) -> None:
        self._memory = budget
        self.events.add(self.processed, "memory", budget=budget)
        if self._appraised:
            self._select(self._appraised)

    def _use(self, wanted: Sequence[Candidate], known: Mapping[Candidate, Appraisal]) -> None:
        """Use caches, as far as there is memory for them."""
        groups = dict.fromkeys(c.group for c in wanted)
        needs = {g: self._need(g, [known[c] for c in wanted if c.group == g and c in known]) for g in groups}
        limits = allocate(needs, self._memory)
        self.use(c for c in wanted if limits[c.group] != 0)
        for group in set(self._probed) - set(self.caches):
            self._observed.pop(group, None)
            del self._probed[group]
        for group, cache in self.caches.items():
            keys = max(2 * len(cache.entries), int(4 * needs[group].bytes / self._entry_bytes(group, 1)), 256)
            cache.resize(max(cache.buckets if len(cache.entries) else 0, min(keys, 1 << 17)), limits[group])

    def _need(self, group: Group, appraisals: Sequence[Appraisal]) -> Need:
        if not appraisals:
            return Need(0.0, float(ENTRY_BYTES))
        net = sum(a.benefit for a in appraisals) - appraisals[0].upkeep
        own = self.caches.get(group)
        return Need(
            net, max(own.bytes if own else 0, *(a.keys * self._entry_bytes(group, a.tuples) for a in appraisals))
        )

    @staticmethod
    def _entry_bytes(group: Group, tuples: float) -> float:
        return ENTRY_BYTES + tuples * (TUPLE_BYTES + REFERENCE_BYTES * (len(group.inputs) + 1))

    # --- telling -------------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Rates, the join order of each pipeline, caches in use with their figures, and the last decisions."""
        names = self.events.names
        return {
            "processed": self.processed,
            "rates": dict(zip(names, (round(r, 4) for r in self.profiler.rates.shares()), strict=True)),
            "pipelines": {names[n]: [names[o] for o in order] for n, order in enumerate(self.orders)},
            "profiling": self._profiling,
            "memory": {"budget": self._memory, "used": self.bytes_used},
            "caches": [self._about(c) for c in self.used],
            "events": self.events.last(),
        }

    def _about(self, c: Candidate) -> dict[str, Any]:
        cache: Cache = self.caches[c.group]
        observed = self._observed.get(c.group)
        known = self._appraised.get(c)
        return {
            "cache": self.events.cache(c),
            "keys": len(cache.entries),
            "bytes": cache.bytes,
            "limit": cache.limit,
            "hits": None if observed is None else round(1 - observed.value, 4),
            **({} if known is None else {"benefit": known.benefit, "cost": known.upkeep}),
        }
