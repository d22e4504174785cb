"""The canonical text of a time-free expression, and its fingerprint: what it computes, whatever its columns are called.

Columns are written by position (``#1.2`` is column 2 of input 1), so neither identities nor names of columns matter, while
their types, their order and the columns of tables do. One line per distinct operator: equal sub-expressions, also those that
differ only in column identities, are written once, so the text grows with the DAG and not with the tree.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from tempura.algebra.expand import Expand
from tempura.algebra.failing import can_fail
from tempura.algebra.generate import Generate
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.one import One
from tempura.algebra.rel import (
    Aggregate,
    Consolidate,
    Filter,
    Join,
    Negate,
    Opaque,
    Project,
    Rel,
    Scan,
    Sort,
    Support,
    TopK,
    Union,
    Values,
)
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Literal, Output, Ref, SortKey
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.algebra.window import Frame, Window, WindowOutput
from tempura.errors import TempuraError

Resolve = Callable[[Rel], Rel]
"""What an input of an operator stands for: itself, or an expression with the same columns in the same order."""


def as_it_is(rel: Rel) -> Rel:
    """An input that stands for itself."""
    return rel


def canonical_text(rel: Rel, resolve: Resolve = as_it_is) -> str:
    """The complete text of an expression, one operator per line, inputs first. ``resolve`` says what inputs stand for.

    Two expressions have equal texts exactly if they are equal after renaming columns. Raises TempuraError
    ``NOT_CANONICAL`` for an operator that is bound to a time.
    """
    writer = _Writer(resolve)
    writer.name(rel)
    return "\n".join(f"{name} = {body}" for body, name in writer.names.items())


def fingerprint(rel: Rel, resolve: Resolve = as_it_is) -> str:
    """The SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical_text(rel, resolve).encode()).hexdigest()


def operator_text(rel: Rel, inputs: Iterable[str] = ()) -> str:
    """The canonical text of one operator, over inputs of the given names: equal for two operators exactly if renaming columns
    makes them equal. Raises TempuraError ``NOT_CANONICAL`` for an operator that is bound to a time."""
    return " ".join([type(rel).__name__, *inputs, *_parameters(rel, _Columns(rel.inputs))])


def meaning_text(rel: Rel) -> str:
    """The same for an operator over any inputs, with operands that may change places in an order of their own, unless one of them can fail:
    of two uses of one sub-query Spark may have written ``p AND q`` and ``q AND p``, and they give the same rows."""
    return " ".join([type(rel).__name__, *_parameters(rel, _InAnyOrder(rel.inputs))])


@dataclass(slots=True)
class _Writer:
    """``names`` maps the text of each operator to the name of its line; ``done`` the operators to their names."""

    resolve: Resolve
    names: dict[str, str] = field(default_factory=dict)
    done: dict[Rel, str] = field(default_factory=dict)

    def name(self, rel: Rel) -> str:
        """The name of an operator's line, which is written on first use."""
        if rel not in self.done:
            meant = self.resolve(rel)
            body = operator_text(meant, [self.name(input) for input in meant.inputs])
            self.done[rel] = self.names.setdefault(body, f"r{len(self.names)}")
        return self.done[rel]


class _Columns:
    """How an operator's expressions spell columns: by input and position. A column that no input has (finalizing a state
    mentions the columns that were aggregated) is numbered by first occurrence."""

    def __init__(self, inputs: tuple[Rel, ...]) -> None:
        self._spelled: dict[Column, str] = {}
        for i, input in enumerate(inputs):
            for j, column in enumerate(input.columns):
                self._spelled.setdefault(column, f"#{i}.{j}")
        self._free = 0

    def spell(self, column: Column) -> str:
        """The text of a reference to a column."""
        if column not in self._spelled:
            self._spelled[column] = f"?{self._free}"
            self._free += 1
        return f"{self._spelled[column]}:{_type(column.type)}"

    def expr(self, expr: Expr) -> str:
        """The text of a scalar expression; a call is written with everything that takes part in its equality."""
        if isinstance(expr, Ref):
            return self.spell(expr.column)
        if isinstance(expr, Literal):
            return f"{expr.value!r}:{_type(expr.type)}"
        unstable = "" if expr.stable else "~"
        return f"{expr.function}{unstable}({_detailed(map(self.expr, expr.operands), expr.detail)}):{_type(expr.type)}"

    def aggregate(self, call: AggregateCall) -> str:
        """The text of an aggregate function."""
        kind = " DISTINCT" if call.distinct else ""
        filter = f" FILTER {self.expr(call.filter)}" if call.filter is not None else ""
        return (
            f"{call.function}{kind}({_detailed(map(self.expr, call.operands), call.detail)}):{_type(call.type)}{filter}"
        )

    def outputs(self, outputs: tuple[Output, ...]) -> str:
        """The text of projected columns or grouping keys."""
        return _listed(f"{self.expr(o.expr)} AS {_type(o.column.type)}" for o in outputs)

    def aggregates(self, outputs: tuple[AggregateOutput, ...]) -> str:
        """The text of aggregated columns."""
        return _listed(f"{self.aggregate(o.call)} AS {_type(o.column.type)}" for o in outputs)

    def windows(self, outputs: tuple[WindowOutput, ...]) -> str:
        """The text of window functions with their frames."""
        return _listed(f"{self.aggregate(o.call)} {self._frame(o.frame)} AS {_type(o.column.type)}" for o in outputs)

    def _frame(self, frame: Frame) -> str:
        bounds = ("-" if bound is None else self.expr(bound) for bound in (frame.lower, frame.upper))
        return " ".join((frame.kind, *bounds))

    def order(self, keys: tuple[SortKey, ...]) -> str:
        """The text of an ORDER BY."""
        return _listed(f"{self.expr(k.expr)} asc={k.ascending} nulls_first={k.nulls_first}" for k in keys)


_EITHER_WAY = frozenset(("And", "Or", "EqualTo", "EqualNullSafe"))
"""Functions whose operands may change places."""


class _InAnyOrder(_Columns):
    """Operands that may change places are told apart by what they are, and not by where they stand."""

    def expr(self, expr: Expr) -> str:
        if not isinstance(expr, Call) or expr.function not in _EITHER_WAY or expr.detail or can_fail(expr):
            return super().expr(expr)
        return f"{expr.function}{_listed(sorted(map(self.expr, _terms(expr))))}"


def _terms(call: Call) -> Iterator[Expr]:
    """The operands of a call, and in the place of an AND in an AND, or of an OR in an OR, its operands."""
    for operand in call.operands:
        if isinstance(operand, Call) and operand.function == call.function and call.function in ("And", "Or"):
            yield from _terms(operand)
        else:
            yield operand


def _parameters(rel: Rel, columns: _Columns) -> tuple[str, ...]:
    """Everything about an operator besides its inputs."""
    match rel:
        case Scan():
            fields = (f"{name!r}:{_type(c.type)}" for name, c in zip(rel.fields, rel.outputs, strict=True))
            return (repr(rel.table), _listed(fields))
        case Values():
            return (_types(rel.outputs), _listed(map(repr, rel.rows)))
        case Opaque():
            return (_types(rel.outputs), repr(rel.key))
        case Filter():
            return (columns.expr(rel.predicate),)
        case Project():
            return (columns.outputs(rel.outputs),)
        case Expand():
            return tuple(map(columns.outputs, rel.projections))
        case Join():
            return (rel.kind, columns.expr(rel.on))  # a marker is a new column: its identity does not matter
        case MultiJoin():
            return (columns.expr(rel.on),)
        case Aggregate() | Partial() | MergeStates() | Finalize():
            return (columns.outputs(rel.keys), columns.aggregates(rel.aggregates))
        case TopK():
            return (columns.order(rel.order), str(rel.limit))
        case Sort():
            return (columns.order(rel.order),)
        case Generate():
            return (columns.expr(rel.generator), _types(rel.outputs), f"outer={rel.outer}")
        case Window():
            return (_listed(map(columns.expr, rel.partition)), columns.order(rel.order), columns.windows(rel.functions))
        case Union() | Negate() | Consolidate() | Support() | One():
            return ()
    raise TempuraError(
        "NOT_CANONICAL", f"{rel.label} is bound to a time.", "Ask for the text of the expression it views."
    )


def _types(columns: tuple[Column, ...]) -> str:
    return _listed(_type(column.type) for column in columns)


@cache
def _type(type: str) -> str:
    """A type's text; quoted if a field name in it could be taken for something else."""
    return type if re.fullmatch(r"[\w(),<>:]+", type) else repr(type)


def _listed(parts: Iterable[str]) -> str:
    return "[" + ", ".join(parts) + "]"


def _detailed(operands: Iterable[str], detail: str) -> str:
    return ", ".join(operands) + (f"; {detail!r}" if detail else "")
