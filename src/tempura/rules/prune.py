"""What an empty input makes of an operator. Time-dependent: a delta is empty at one time and not at another, so this acts on
expressions over views, and on TVRs only for what is the constant empty bag (:func:`without_empty`)."""

from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Join, Opaque, Project, Rel, Union, Values, empty, keep
from tempura.algebra.scalar import Literal, Output, Ref
from tempura.algebra.states import MergeStates, Partial


def is_empty(rel: Rel) -> bool:
    """Whether the relation is the constant empty bag."""
    return isinstance(rel, Values) and not rel.rows


def prune(rel: Rel) -> Rel:
    """The operator, whose inputs are already pruned, without what its empty inputs make superfluous."""
    if not any(is_empty(i) for i in rel.inputs):
        return rel
    match rel:
        case Join():
            return _join(rel)
        case MultiJoin():
            return empty(rel.columns)
        case Union():
            return _union(rel)
        case MergeStates():
            return rel.left if is_empty(rel.right) else rel
        case Aggregate() | Partial() if not rel.keys:
            return rel
        case Opaque():
            return rel
        case One():
            return Values(rel.columns, ((None,) * len(rel.columns),))
        case _:
            return empty(rel.columns) if all(is_empty(i) for i in rel.inputs) else rel


def without_empty(query: Rel) -> Rel:
    """A query without what it makes of constant empty bags, which are empty at all times. Catalyst leaves one where a condition holds
    for no row, as for those channels of a union that a use of it does not ask for, and what is above it to a rule that looks at
    data."""
    return prune(query.with_inputs(*map(without_empty, query.inputs))) if query.inputs else query


def _union(union: Union) -> Rel:
    terms = tuple(term for term in union.terms if not is_empty(term))
    if not terms:
        return empty(union.columns)
    return keep(terms[0], union.columns) if len(terms) == 1 else Union(terms)


def _join(join: Join) -> Rel:
    left, right = (is_empty(i) for i in join.inputs)
    if left and (right or join.kind != "full"):
        return empty(join.columns)
    if not right or join.kind == "full":
        return join
    match join.kind:
        case "anti":
            return join.left
        case "left" | "single":
            nulls = tuple(Output(c, Literal(None, c.type)) for c in join.right.columns)
            return _project(join.left, nulls)
        case "exists":
            assert join.marker is not None
            return _project(join.left, (Output(join.marker, Literal(False, "boolean")),))
        case _:
            return empty(join.columns)


def _project(rel: Rel, more: tuple[Output, ...]) -> Rel:
    return Project(rel, tuple(Output(c, Ref(c)) for c in rel.columns) + more)
