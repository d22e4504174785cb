"""Canonical texts: equal exactly for expressions that are equal after renaming columns."""

from dataclasses import replace
from decimal import Decimal

import pytest

from tempura.algebra.canonical import canonical_text, fingerprint
from tempura.algebra.rel import (
    Aggregate,
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
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    SortKey,
    equal,
)
from tempura.algebra.states import Finalize, Partial
from tempura.errors import Reason, TempuraError
from tempura.tvr.views import Snapshot, View


def scan(prefix: str, table: str = "sales", fields: tuple[str, ...] = ("k", "v"), type: str = "int") -> Scan:
    return Scan(table, fields, tuple(Column(f"{prefix}.{f}", f"{prefix}_{f}", type) for f in fields))


def at_least(source: Rel, limit: object, type: str = "int", detail: str = "", stable: bool = True) -> Filter:
    return Filter(
        source, Call("GreaterThan", (Ref(source.columns[1]), Literal(limit, type)), "boolean", detail, stable, object())
    )


def grouped(source: Rel, prefix: str, **changes: object) -> Aggregate:
    key, value = source.columns
    call = AggregateCall("Sum", (Ref(value),), "bigint", handle=object())
    total = AggregateOutput(Column(f"{prefix}.t", prefix, "bigint"), replace(call, **changes))  # type: ignore[arg-type]
    return Aggregate(source, (Output(Column(f"{prefix}.k", prefix, "int"), Ref(key)),), (total,))


def query(a: str, b: str) -> Rel:
    """A self-join of an aggregation, with column identities made from two prefixes."""
    left, right = grouped(at_least(scan(a), 1), a + "g"), grouped(at_least(scan(b), 1), b + "g")
    on = equal(Ref(left.columns[0]), Ref(right.columns[0]))
    return TopK(Join(left, right, "left", on), (SortKey(Ref(right.columns[1])),), 3)


def test_identities_names_and_handles_of_columns_do_not_matter() -> None:
    assert query("a", "b") != query("x", "y")
    assert canonical_text(query("a", "b")) == canonical_text(query("x", "y"))
    assert fingerprint(query("a", "b")) == fingerprint(query("b", "a"))


def test_equal_parts_are_written_once() -> None:
    text = canonical_text(query("a", "b"))
    assert text.count("Scan") == text.count("Aggregate") == 1
    assert "Join r2 r2 left" in text


def test_text_does_not_explode_on_sharing() -> None:
    shared: Rel = scan("a")
    for _ in range(200):
        shared = Union((shared, Negate(shared)))
    assert len(canonical_text(shared).splitlines()) == 401


S = scan("a")
ONE = Output(Column("p", "p", "int"), Ref(S.columns[0]))
TWO = Output(Column("q", "q", "int"), Ref(S.columns[1]))
DIFFERENT: list[Rel] = [
    S,
    scan("a", "returns"),
    scan("a", fields=("v", "k")),
    scan("a", fields=("k",)),
    scan("a", type="bigint"),
    at_least(S, 1),
    at_least(S, 2),
    at_least(S, 1.0),
    at_least(S, True),
    at_least(S, "1"),
    at_least(S, None),
    at_least(S, Decimal(1)),
    at_least(S, Decimal("1.0")),
    at_least(S, 1, "bigint"),
    at_least(S, 0.0, "double"),
    at_least(S, -0.0, "double"),
    at_least(S, 1, detail="ANSI"),
    at_least(S, 1, stable=False),
    Filter(S, equal(Ref(S.columns[0]), Ref(S.columns[1]))),
    Filter(S, equal(Ref(S.columns[1]), Ref(S.columns[0]))),
    Filter(S, Call("EqualNullSafe", (Ref(S.columns[0]), Ref(S.columns[1])), "boolean")),
    Project(S, (ONE,)),
    Project(S, (TWO,)),
    Project(S, (ONE, TWO)),
    Project(S, (TWO, ONE)),
    Project(S, (replace(ONE, column=Column("p", "p", "bigint")),)),
    grouped(S, "g"),
    grouped(S, "g", distinct=True),
    grouped(S, "g", detail="TRY"),
    grouped(S, "g", type="int"),
    grouped(S, "g", function="Max"),
    grouped(S, "g", operands=()),
    grouped(S, "g", filter=Literal(True, "boolean")),
    replace(grouped(S, "g"), keys=()),
    Sort(S, (SortKey(Ref(S.columns[0])),)),
    Sort(S, (SortKey(Ref(S.columns[1])),)),
    Sort(S, (SortKey(Ref(S.columns[0]), ascending=False),)),
    Sort(S, (SortKey(Ref(S.columns[0]), nulls_first=False),)),
    TopK(S, (SortKey(Ref(S.columns[0])),), 1),
    TopK(S, (SortKey(Ref(S.columns[0])),), 2),
    Negate(S),
    Support(S),
    Union((S,)),
    Union((S, S)),
    Union((S, Negate(S))),
    Values(S.columns, ()),
    Values(S.columns, ((1, 2),)),
    Values(S.columns, ((1, 2.0),)),
    Values(S.columns, ((1, 2), (1, 2))),
    Opaque((S,), S.columns, "one", Reason("R", "r")),
    Opaque((S,), S.columns, "two", Reason("R", "r")),
    *(
        Join(S, scan("b"), kind, on, Column("m", "m", "boolean") if kind == "exists" else None)
        for kind in ("inner", "left", "full", "semi", "anti", "exists")
        for on in (equal(Ref(S.columns[0]), Ref(scan("b").columns[0])), equal(Ref(S.columns[0]), Ref(scan("b").columns[1])))
    ),
]  # fmt: skip


def test_every_other_difference_matters() -> None:
    texts = [canonical_text(rel) for rel in DIFFERENT]
    repeated = [text for text in texts if texts.count(text) > 1]
    assert not repeated
    assert len({fingerprint(rel) for rel in DIFFERENT}) == len(DIFFERENT)


def test_quotes_in_names_cannot_forge_another_expression() -> None:
    forged = "a', 'b"
    assert canonical_text(scan("s", fields=(forged,))) != canonical_text(scan("s", fields=("a", "b")))
    one = Call("F", (), "int", detail="x'); G('y")
    assert canonical_text(Filter(S, one)) != canonical_text(
        Filter(S, replace(one, detail="x", operands=(Literal(1, "int"),)))
    )
    types: list[Expr] = [Literal(None, "struct<a:int>, b:int"), Literal(None, "struct<a:int>")]
    assert len({canonical_text(Filter(S, e)) for e in types}) == 2


def test_states_have_texts_too() -> None:
    aggregation, other = grouped(S, "g"), grouped(scan("b"), "h")
    texts = {
        canonical_text(Finalize(Partial(a.input, a.keys, a.aggregates), a.keys, a.aggregates))
        for a in (aggregation, other)
    }
    assert len(texts) == 1


def test_expressions_bound_to_a_time_are_refused() -> None:
    with pytest.raises(TempuraError, match="NOT_CANONICAL"):
        fingerprint(View(S, Snapshot(1)))
