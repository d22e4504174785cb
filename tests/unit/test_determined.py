"""What SQL determines of a result with ties."""

from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, TopK
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, SortKey, equal
from tempura.algebra.window import CURRENT_ROW, Frame, Window, WindowOutput
from tempura.warehouse.spark.determined import determined, is_determined

K, V, X = (Column(c, c, "int") for c in "kvx")
RN, RANK, SUM, SO_FAR = (Column(c, c, "bigint") for c in ("rn", "rank", "sum", "so_far"))
TABLE = Scan("t", ("k", "v", "x"), (K, V, X))
TOTAL = AggregateCall("Sum", (Ref(X),), "bigint")


def ranked(*functions: WindowOutput) -> Window:
    return Window(TABLE, (Ref(K),), (SortKey(Ref(V)),), functions)


NUMBER = WindowOutput(RN, AggregateCall("RowNumber", (), "int"), Frame("rows", None, CURRENT_ROW))
PLACE = WindowOutput(RANK, AggregateCall("Rank", (), "int"), Frame("rows", None, CURRENT_ROW))
PEERS = WindowOutput(SUM, TOTAL, Frame("range", None, CURRENT_ROW))
RUNNING = WindowOutput(SO_FAR, TOTAL, Frame("rows", None, CURRENT_ROW))


def names(rel: Rel) -> set[str]:
    return {" ".join(sorted(c.name for c in columns)) for columns in determined(rel)}


def first(rel: Rel) -> Filter:
    return Filter(rel, equal(Ref(RN), Literal(1, "int")))


def test_without_ties_everything_is() -> None:
    assert is_determined(ranked(PLACE, PEERS))
    assert is_determined(Join(TABLE, Project(TABLE, (Output(Column("y", "y", "int"), Ref(K)),)), "full"))


def test_a_row_number_goes_with_the_sort_keys_or_not_at_all() -> None:
    assert names(ranked(NUMBER, PLACE, PEERS, RUNNING)) == {"k rank sum v x", "k rank rn sum v"}


def test_the_first_rows_have_determined_sort_keys_only() -> None:
    assert names(first(ranked(NUMBER, PEERS))) == {"k rn sum v"}
    kept = Project(first(ranked(NUMBER)), (Output(K, Ref(K)), Output(X, Ref(X))))
    assert names(kept) == {"k"}
    counted = AggregateOutput(SUM, AggregateCall("Count", (), "bigint"))
    total = AggregateOutput(SO_FAR, TOTAL)
    assert names(Aggregate(kept, (Output(K, Ref(K)),), (counted, total))) == {"k sum"}


def test_a_limit_determines_its_sort_keys_and_the_number_of_rows() -> None:
    assert names(TopK(TABLE, (SortKey(Ref(V)),), 3)) == {"v"}
    assert names(Project(TopK(TABLE, (), 3), (Output(K, Ref(K)),))) == {""}
    computed = Call("Add", (Ref(V), Ref(K)), "int")
    assert names(TopK(TABLE, (SortKey(computed),), 3)) == {""}


def test_a_condition_on_what_depends_on_ties_leaves_nothing() -> None:
    assert names(Filter(ranked(RUNNING), equal(Ref(SO_FAR), Literal(1, "bigint")))) == set()
    assert names(TopK(TopK(TABLE, (SortKey(Ref(V)),), 3), (SortKey(Ref(K)),), 2)) == set()
