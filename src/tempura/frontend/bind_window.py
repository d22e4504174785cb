"""Window functions back to Catalyst's, for execution."""

from collections.abc import Callable, Sequence

from tempura.algebra.scalar import AggregateCall, Call, Column, Expr, Ref, SortKey
from tempura.algebra.window import BY_PEERS, ENDS, Window, WindowOutput
from tempura.errors import TempuraError
from tempura.frontend.catalyst import EXPRESSIONS, JavaObject, class_of
from tempura.frontend.expressions import Binder, NameOf
from tempura.frontend.later import static
from tempura.frontend.tree import jvm_object, object_later

Ties = Sequence[SortKey]
"""Sort keys that decide where the order of a window does not."""


def bind_window(rel: Window, output: WindowOutput, ties: Ties, name_of: NameOf, place: str) -> JavaObject:
    """The Catalyst WindowExpression of one function of a window. ``place`` is the name of a column with the row's number in its
    partition, which decides FIRST and LAST among peers.

    Raises TempuraError ``NOT_EXECUTABLE`` for a function that was not lifted.
    """
    binder = _WindowBinder(name_of)
    if in_range(output):
        return binder.over(rel, (), binder.end(output.call, place), object_later(output.frame.handle))
    own = ties if output.depends_on_ties else ()
    return binder.over(rel, own, binder.function(output.call), object_later(output.frame.handle))


def bind_place(rel: Window, ties: Ties, name_of: NameOf) -> JavaObject:
    """The number of a row in its partition, ties decided."""
    binder = _WindowBinder(name_of)
    return binder.over(rel, ties, binder.row_number(), binder.rows_so_far())


def in_range(output: WindowOutput) -> bool:
    """Whether a function takes one row of a frame that may end amid rows which the order cannot tell apart: more sort keys would
    change the frame."""
    return output.call.function in ("First", "Last") and output.frame.kind == "range"


class _WindowBinder(Binder):
    """Binds window functions to the columns of one DataFrame."""

    def over(self, rel: Window, ties: Ties, function: JavaObject, frame: JavaObject) -> JavaObject:
        """A function over a frame."""
        partition = self._seq([self.bind(e) for e in rel.partition])
        order = self._seq([self._sort_order(key) for key in (*rel.order, *ties)])
        return self._new("WindowExpression", function, self._new("WindowSpecDefinition", partition, order, frame))

    def function(self, call: AggregateCall) -> JavaObject:
        """A window function over its arguments."""
        if call.handle is None:
            raise TempuraError("NOT_EXECUTABLE", f"{call} was not lifted, and Spark is not told how to compute it.")
        handle = jvm_object(call.handle)
        if call.function in BY_PEERS and call.function != "CumeDist":
            # The analyser gives a rank the sort keys of its window as children.
            return self._new(call.function)
        if class_of(handle) != "AggregateExpression":
            return self._over(handle, call.operands)
        if call.function in ENDS:
            return self._complete(self._over(handle.aggregateFunction(), call.operands))
        return self.bind_aggregate(call)

    def end(self, call: AggregateCall, place: str) -> JavaObject:
        """FIRST or LAST as the value at the least or greatest place."""
        (value,) = (self.bind(operand) for operand in call.operands)
        at = self.bind(Ref(Column(place, place, "int")))
        if "ignoreNulls=True" in call.detail:
            at = self._new("If", self._new("IsNull", value), self.literal(None, "int"), at)
        return self._complete(
            self._new("aggregate.MinBy" if call.function == "First" else "aggregate.MaxBy", value, at)
        )

    def row_number(self) -> JavaObject:
        """ROW_NUMBER()."""
        return self._new("RowNumber")

    def rows_so_far(self) -> JavaObject:
        """ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW."""
        parts = (self._object(name) for name in ("RowFrame", "UnboundedPreceding", "CurrentRow"))
        return self._new("SpecifiedWindowFrame", *parts)

    def _sort_order(self, key: SortKey) -> JavaObject:
        direction = self._object("Ascending" if key.ascending else "Descending")
        nulls = self._object("NullsFirst" if key.nulls_first else "NullsLast")
        return self._new("SortOrder", self.bind(key.expr), direction, nulls, self._seq(()))

    def _complete(self, function: JavaObject) -> JavaObject:
        mode = self._jvm.static(f"{EXPRESSIONS}.aggregate.Complete$", "MODULE$")
        id, nothing = static(f"{EXPRESSIONS}.NamedExpression", "newExprId"), static("scala.Option", "empty")
        return self._new("aggregate.AggregateExpression", function, mode, False, nothing, id)

    def _object(self, name: str) -> JavaObject:
        return self._jvm.static(f"{EXPRESSIONS}.{name}$", "MODULE$")


def tie_breaks(columns: Sequence[Column], orderable: Callable[[str], bool], exact: Callable[[str], bool]) -> Ties:
    """All columns by SQL's order where their type has one; then the text of those whose values SQL cannot always tell apart."""
    by_value = [SortKey(Ref(c)) for c in columns if orderable(c.type)]
    return (*by_value, *(SortKey(_text(c)) for c in columns if not exact(c.type)))


def _text(column: Column) -> Expr:
    return Call("Cast", (Ref(column),), "binary" if column.type.startswith("string") else "string", "legacy")
