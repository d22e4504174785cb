"""The rule language: a rule is a law between views of TVRs, written as a Python function.

    @rule(TVR_GENERATING, cite=(1, 2))
    def delta_inner_join(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
        '''Δ(L ⋈ R) = ΔL ⋈ R[:t] + L[:u] ⋈ ΔR'''
        return rewrite(L.join(R, on)[t:u], L[t:u].join(R[:t], on) + L[:u].join(R[t:u], on))

The function's name is the rule's name, its typed parameters are the metavariables, the first line of its docstring is the
law. To compile a rule, the function is called once with *holes*, small legal values that stand for the metavariables; the
left side that comes back is the pattern. To apply it, the function is called again with what the pattern bound. A time that
does not occur on the left side is an earlier one (the time point before, or the first), one of kind ``Between`` lies within the
interval on the left, a ``Table`` is the one that moves; parameters of type :class:`Facts` and :class:`Links` are given by the planner.
Rules hold no state.

A law between TVRs, without times, holds at all times; its left side may nest operators (``rules.logical``).

    @rule(LOGICAL, cite=(4,))
    def merge_filters(R: Tvr, p: Pred, q: Pred) -> Rewrite:
        '''filter(p, filter(q, R)) = filter(q AND p, R)'''
        return rewrite(R.filter(q).filter(p), R.filter(conjunction(q, p)))

A rule may also say into which parts a TVR splits; other rules then use the parts by their links, ``Q.P`` and ``Q.N``.

    @rule(INTER_TVR, cite=(1,))
    def split_inner_join(L: Tvr, R: Tvr, on: On) -> Split:
        '''P(L ⋈ R) = P(L) ⋈ P(R)      N(L ⋈ R) = P(L) ⋈ N(R) + N(L) ⋈ R'''
        return split(L.join(R, on), P=L.P.join(R.P, on), N=L.P.join(R.N, on) + L.N.join(R, on))
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import wraps
from typing import Annotated, Protocol, TypeVar, get_type_hints

from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.once import cached_property
from tempura.algebra.rel import JoinKind, Rel, compared, empty
from tempura.algebra.scalar import AggregateOutput, Call, Column, Expr, Output, SortKey
from tempura.algebra.window import WindowOutput
from tempura.errors import Reason
from tempura.rules.match import Members, depth, hole, itself, matches, name_of_hole, operator_of
from tempura.tvr.links import Linked
from tempura.tvr.staircase import Time as Moment
from tempura.tvr.tvr import Bag, Tvr
from tempura.tvr.views import SYMBOLS, View


class Family(Enum):
    """The three families of TVR rewrite rules (Tempura, section 4), and the traditional rules, between TVRs at all times."""

    TVR_GENERATING = "TVR-generating"
    INTRA_TVR = "intra-TVR"
    INTER_TVR = "inter-TVR"
    LOGICAL = "logical"


TVR_GENERATING, INTRA_TVR, INTER_TVR, LOGICAL = Family


@dataclass(frozen=True, slots=True)
class Kind:
    """What a metavariable stands for; carried in ``Annotated`` so that type checkers see the plain type."""

    name: str


Query = Annotated[Tvr, Kind("Query")]
"""A TVR that is the result of an operator (any), not a table."""
Tvrs = Annotated[tuple[Tvr, ...], Kind("Tvrs")]
"""One or more TVRs with the same columns."""
Sides = Annotated[tuple[Tvr, ...], Kind("Sides")]
"""Two or more TVRs that are joined: with columns of their own."""
On = Annotated[Expr, Kind("On")]
"""A join condition."""
OnAll = Annotated[Expr, Kind("OnAll")]
"""The condition of a join of many."""
Marker = Annotated[Column, Kind("Marker")]
"""The column in which an existence join says whether there is a match."""
How = Annotated[JoinKind, Kind("How")]
"""Any kind of join."""
NotInner = Annotated[JoinKind, Kind("NotInner")]
"""Any kind of join but the inner one."""
AnyMarker = Annotated[Column | None, Kind("AnyMarker")]
"""The marker of a join of any kind: None unless it is an existence join."""
Pred = Annotated[Expr, Kind("Pred")]
"""A predicate over one relation."""
Outputs = Annotated[tuple[Output, ...], Kind("Outputs")]
Projections = Annotated[tuple[tuple[Output, ...], ...], Kind("Projections")]
Keys = Annotated[tuple[Output, ...], Kind("Keys")]
Aggs = Annotated[tuple[AggregateOutput, ...], Kind("Aggs")]
Order = Annotated[tuple[SortKey, ...], Kind("Order")]
Partition = Annotated[tuple[Expr, ...], Kind("Partition")]
WindowCalls = Annotated[tuple[WindowOutput, ...], Kind("WindowCalls")]
Generator = Annotated[Call, Kind("Generator")]
Generated = Annotated[tuple[Column, ...], Kind("Generated")]
Outer = Annotated[bool, Kind("Outer")]
Limit = Annotated[int, Kind("Limit")]
Time = Annotated[Moment, Kind("Time")]
Between = Annotated[Moment, Kind("Between")]
"""A point between two times, at which some tables have moved on and others have not (``tvr.staircase``)."""
Table = Annotated[str, Kind("Table")]
"""A table. Of a rule that splits by table, the one by which it does; of another, the only one that moves between the rule's times; of
one that speaks of one time, any that changes."""


class Facts(Protocol):
    """What is certain about the tables, because it is pinned or promised and enforced. Never an expectation."""

    def insert_only(self, tvr: Tvr, t: Moment, u: Moment) -> bool:
        """Whether the delta from t to u certainly has no deletions."""
        ...

    def points(self, tvr: Tvr, t: Moment, u: Moment) -> tuple[Moment, ...]:
        """The points between t and u at which some tables that the TVR reads have moved on, and others not yet."""
        ...

    def is_first(self, t: Moment) -> bool:
        """Whether t may be the first time for whoever asks: nothing that was before it need be known then."""
        ...

    def unchanged(self, tvr: Tvr, t: Moment, u: Moment) -> bool:
        """Whether nothing that the TVR reads changes from t to u."""
        ...

    def only_grows(self, tvr: Tvr) -> bool:
        """Whether the TVR certainly loses no row over all of the plan."""
        ...

    def never_changes(self, tvr: Tvr) -> bool:
        """Whether nothing that the TVR reads changes over all of the plan."""
        ...

    def matches_no_change(self, left: Tvr, right: Tvr, on: Expr, s: Moment, t: Moment, u: Moment) -> bool:
        """Whether certainly no row of ``left[:s]`` matches a row that ``right`` gets or loses after t up to u."""
        ...

    def move_apart(self, one: Tvr, other: Tvr, t: Moment, u: Moment) -> bool:
        """Whether what changes in two TVRs from t to u can be looked at one table at a time, and each table changes one of them only."""
        ...

    def reads(self, tvr: Tvr, table: str) -> bool:
        """Whether the TVR is computed from a table."""
        ...

    def is_seen_without(self, table: str, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether there are certainly the same values in some columns of the TVR, whatever a table has."""
        ...


class Always(Protocol):
    """What is certain of TVRs at all times, whatever arrives."""

    def is_unique(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether no two rows have the same values in some columns."""
        ...


class Promised(Protocol):
    """What is certain of TVRs whenever all tables are seen at the same time, because tables promise it and that is enforced. A law that
    relies on it makes classes of what is the same then, and not where one table has moved on and another has not."""

    def has_partner(self, left: Tvr, right: Tvr, on: Expr) -> bool:
        """Whether each row of ``left``, none of whose columns in a condition is NULL, matches exactly one of ``right``."""
        ...

    def never_null(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether some columns have no NULL."""
        ...


class Expected(Protocol):
    """What is expected of TVRs by their statistics. Decides whether a law is worth a try, never what is right."""

    def shrinks(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether there are far fewer groups by some columns than rows."""
        ...

    def reduces(self, tvr: Tvr, other: Tvr, on: Expr) -> bool:
        """Whether far fewer rows of a TVR match another than there are."""
        ...

    def is_far_smaller(self, tvr: Tvr, other: Tvr) -> bool:
        """Whether a TVR has far fewer rows than another."""
        ...


class Links(Protocol):
    """What is known of the parts of TVRs."""

    def has(self, part: Tvr) -> bool:
        """Whether a linked part (``Q.P``) is there and may have rows."""
        ...


@dataclass(frozen=True, slots=True)
class Rewrite:
    """``lhs`` may be computed as ``rhs`` when ``where`` holds: views at some times, or TVRs at all times."""

    lhs: Rel
    rhs: Rel
    where: bool = True


Term = TypeVar("Term", Bag, Tvr)
"""Either relations at a time or TVRs: never one rewritten into the other."""


def rewrite(lhs: Term, rhs: Term, where: bool = True) -> Rewrite:
    """The law ``lhs = rhs`` under a guard: between two relations at a time, or between two TVRs at all times."""
    return Rewrite(lhs.rel, rhs.rel, where)


@dataclass(frozen=True, slots=True)
class Split:
    """``lhs`` splits into ``parts``, TVRs by the kinds of their links, when ``where`` holds. A part without rows is the constant
    empty bag: that is more than not to have a link."""

    lhs: Rel
    parts: Mapping[str, Rel]
    where: bool = True


def split(whole: Tvr, *, where: bool = True, **parts: Tvr | None) -> Split:
    """The parts of a TVR at all times, by the kinds of their links; None stands for no rows."""
    found = {kind: empty(whole.columns) if part is None else part.rel for kind, part in parts.items()}
    return Split(whole.rel, found, where)


GIVEN_KINDS = {given.__name__: given for given in (Facts, Links, Always, Promised, Expected)}
"""What a planner gives a rule, by kind and as the type of the parameter."""


# --- rules ------------------------------------------------------------------------------------------------------------

RuleFunction = Callable[..., Rewrite | Split]

Why = Callable[[Rel, Facts], Reason | None]
"""Why a rule was used on an operator, which is given without classes, over scans; None where there is nothing to tell."""


class Origin(Enum):
    """Where a rule has the values of a view from. That matters where another computation may give others, as of sums of floats: such
    values are computed once, in one way (``search.lineage``)."""

    ANEW = "computed from the inputs"
    STATE = "made of a state of the aggregation, or of the difference of two"
    STORED = "the values that were stored before, and their delta"


@dataclass(frozen=True, eq=False)
class Rule:
    """A compiled rule. ``parameters`` maps each metavariable to the name of its kind (``Tvr``, ``On``, ``Time`` …). ``splits`` are the
    kinds of links that it gives; none for a rule that rewrites. ``reads`` are those of the parts that it mentions, and whether for a
    table. The rest is what the rule declares of itself (:func:`rule`)."""

    name: str
    family: Family
    law: str
    cite: tuple[int, ...]
    parameters: Mapping[str, str]
    function: RuleFunction
    pattern: Rel
    splits: tuple[str, ...]
    reads: frozenset[tuple[str, bool]]
    undoes: tuple[str, ...] = ()
    replaces: bool = False
    any_time: bool = False
    by_definition: bool = False
    origin: Origin = Origin.ANEW
    why: Why | None = None
    by_reference: bool = False

    def apply(self, **bindings: object) -> Rewrite:
        """The law for given metavariables. Raises TypeError for a rule that splits."""
        law = self.function(**bindings)
        if not isinstance(law, Rewrite):
            raise TypeError(f"{self.name} splits a TVR: it has parts, no right side")
        return law

    def split(self, **bindings: object) -> Split:
        """The parts for given metavariables. Raises TypeError for a rule that rewrites."""
        law = self.function(**bindings)
        if not isinstance(law, Split):
            raise TypeError(f"{self.name} rewrites a view: it has a right side, no parts")
        return law

    def matches(self, target: Rel, members: Members = itself) -> Iterator[dict[str, object]]:
        """All metavariables that make the left side equal to ``target``, whose inputs may be classes with ``members``. Times
        that occur on the right side only, facts and links are not bound."""
        return map(dict, matches(self.pattern, target, {}, members))

    def match(self, target: Rel) -> dict[str, object] | None:
        """The first match; None when there is none."""
        return next(self.matches(target), None)

    def times_in(self, view: View) -> dict[str, object]:
        """What the times on the left side stand for in a view that it matches."""
        return {name: getattr(view.at, field) for field, name in self._times.items()}

    @cached_property
    def _times(self) -> dict[str, str]:
        """The times on the left side, by where they stand in the kind of view."""
        assert isinstance(self.pattern, View)
        at = self.pattern.at
        found = ((field, name_of_hole(getattr(at, field), 0)) for field in compared(type(at)))
        return {field: name for field, name in found if name}

    @cached_property
    def operator(self) -> type[Rel] | None:
        """The only operator that the left side matches, or a view of which it matches; None when it matches any."""
        return operator_of(self.pattern)

    def of(self, how: JoinKind) -> "Rule":
        """Of a law that is written for ⟕ and has the kind of a join and its marker as metavariables: the law of one kind, named by it."""
        fixed: dict[str, object] = {"how": how} if how == "exists" else {"how": how, "marker": None}

        @wraps(self.function)
        def function(**bindings: object) -> Rewrite | Split:
            return self.function(**fixed, **bindings)

        function.__doc__ = (self.function.__doc__ or "").replace(SYMBOLS["left"], SYMBOLS[how])
        parameters = {name: kind for name, kind in self.parameters.items() if name not in fixed}
        return replace(
            self,
            name=self.name.replace("join", f"{how}_join"),
            law=self.law.replace(SYMBOLS["left"], SYMBOLS[how]),
            parameters=parameters,
            function=function,
            pattern=function(**_holes(parameters)).lhs,
        )

    @cached_property
    def given(self) -> tuple[tuple[str, str], ...]:
        """The metavariables that a planner gives, with their kinds."""
        return tuple((name, kind) for name, kind in self.parameters.items() if kind in GIVEN_KINDS)

    @cached_property
    def times(self) -> tuple[tuple[str, str], ...]:
        """The metavariables that are times, with their kinds."""
        return tuple((name, kind) for name, kind in self.parameters.items() if kind in ("Time", "Between"))

    @property
    def is_fallback(self) -> bool:
        """Whether it computes, at any time, what could not be maintained, and says why."""
        return self.any_time and self.why is not None

    @cached_property
    def asks_links(self) -> bool:
        """Whether what it makes of a view depends on links: it mentions parts, or asks whether there are any."""
        return bool(self.reads) or "Links" in self.parameters.values()

    @cached_property
    def is_guarded_at_all_times(self) -> bool:
        """Whether its guard holds for an operator at all times or at none: only facts know of times, and of what tables do."""
        return "Facts" not in self.parameters.values() and not self.by_table

    @cached_property
    def by_table(self) -> bool:
        """Whether it speaks of a table: splits by it, or is about the one that moves."""
        return "Table" in self.parameters.values()

    @cached_property
    def is_about_many(self) -> bool:
        """Whether it is about a join of any number of relations."""
        return any(isinstance(part, MultiJoin) for part in self.pattern.walk())

    @cached_property
    def depth(self) -> int:
        """How many operators stand above each other on the left side."""
        return depth(self.pattern)

    def __str__(self) -> str:
        return f"{self.name}: {self.law}"


def rule(
    family: Family,
    cite: tuple[int, ...] = (),
    undoes: tuple[str, ...] = (),
    *,
    replaces: bool = False,
    any_time: bool = False,
    by_definition: bool = False,
    origin: Origin = Origin.ANEW,
    why: Why | None = None,
    by_reference: bool = False,
) -> Callable[[RuleFunction], Rule]:
    """Make a rule of a law. ``cite`` are numbers of ``rules/CITATIONS.md``; ``undoes`` names rules that it reverts: it is not tried on
    what they have made.

    What the planner has to know of a rule, it declares. ``replaces``, of a law at all times: whoever has the right side needs the left
    one no more, whatever the tables hold. ``any_time``: it may make a view later than when that becomes current; the
    others make it then, and who needs it later loads it, so that incremental work is done once. ``by_definition``: it applies the
    operator to whole snapshots of its inputs, so what it makes is *recomputed*. ``origin``: where it has its values from. ``why``: the
    reason that is told, as a fallback of the plan, when the rule is used on an operator. ``by_reference``: its guard holds of nothing
    where no table refers to another.

    Raises TypeError for a parameter that is no metavariable, for a table in a law between TVRs at all times, at which none moves, and for
    ``replaces`` of another law than one of these, or of one about joins of many, which no operator is written as;
    ValueError for a function without a law in its docstring.
    """
    declared = (replaces, any_time, by_definition, origin, why, by_reference)

    def compile(function: RuleFunction) -> Rule:
        if not function.__doc__:
            raise ValueError(f"{function.__name__}: the first line of the docstring is the law")
        parameters = {name: _kind(hint) for name, hint in _hints(function).items()}
        if family is Family.LOGICAL and "Table" in parameters.values():
            raise TypeError(f"{function.__name__} holds at all times: no table moves")
        law = inspect.cleandoc(function.__doc__).splitlines()[0]
        made = function(**_holes(parameters))
        splits = tuple(made.parts) if isinstance(made, Split) else ()
        sides = tuple(made.parts.values()) if isinstance(made, Split) else (made.rhs,)
        reads = frozenset(kind for side in sides for kind in _kinds_of_links(side))
        compiled = Rule(
            function.__name__, family, law, cite, parameters, function, made.lhs, splits, reads, undoes, *declared
        )
        if replaces and (family is not Family.LOGICAL or compiled.is_about_many):
            raise TypeError(f"{function.__name__} replaces no operator: that is for laws at all times about one")
        return compiled

    return compile


def times_of(rule: Rule, bindings: Mapping[str, object]) -> tuple[Moment, ...]:
    """The times that a rule's metavariables stand for."""
    found = (bindings.get(name) for name, _ in rule.times)
    return tuple(time for time in found if isinstance(time, Moment))


def table_of(rule: Rule, bindings: Mapping[str, object]) -> str | None:
    """The table of which a rule speaks; None when it speaks of none."""
    found = (bindings.get(name) for name, kind in rule.parameters.items() if kind == "Table")
    return next((table for table in found if isinstance(table, str)), None)


def _kinds_of_links(rel: Rel) -> Iterator[tuple[str, bool]]:
    viewed = (part.tvr if isinstance(part, View) else part for part in rel.walk())
    linked = (part for tvr in viewed for part in tvr.walk() if isinstance(part, Linked))
    return ((part.kind, part.table is not None) for part in linked)


def _holes(parameters: Mapping[str, str]) -> dict[str, object]:
    return {name: hole(name, kind, i) for i, (name, kind) in enumerate(parameters.items())}


def _hints(function: RuleFunction) -> dict[str, object]:
    hints = get_type_hints(function, include_extras=True)
    return {name: hints[name] for name in inspect.signature(function).parameters}


def _kind(hint: object) -> str:
    if hint is Tvr:
        return "Tvr"
    if hint in GIVEN_KINDS.values():
        return str(getattr(hint, "__name__", hint))
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Kind):
            return extra.name
    raise TypeError(f"not a metavariable: {hint}")
