"""What is joined beforehand when some relations of a join change: never a product."""

from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Scan
from tempura.algebra.scalar import TRUE, Call, Column, Expr, Ref, conjunction, equal
from tempura.rules.hov import Cut
from tempura.tvr.tvr import Tvr


def table(name: str) -> Tvr:
    return Tvr(Scan(name, ("a", "b"), (Column(f"{name}.a", "a", "int"), Column(f"{name}.b", "b", "int"))))


R, S, T, U = (table(name) for name in "rstu")
TERMS = (R, S, T, U)


def same(left: Tvr, right: Tvr) -> Expr:
    return equal(Ref(left.columns[0]), Ref(right.columns[1]))


CHAIN = conjunction(same(R, S), same(S, T), same(T, U))


def parts(cut: Cut) -> list[set[str]]:
    return [{rel.label for rel in part.rel.walk() if isinstance(rel, Scan)} for part in cut.parts]


def test_what_hangs_together_is_joined_with_its_own_conditions() -> None:
    cut = Cut.of(TERMS, CHAIN, frozenset((0,)))
    assert (parts(cut), cut.on) == ([{"s", "t", "u"}], same(R, S))
    joined = cut.parts[0].rel
    assert isinstance(joined, MultiJoin)
    assert joined.on == conjunction(same(S, T), same(T, U))


def test_a_relation_in_the_middle_leaves_two_parts() -> None:
    cut = Cut.of(TERMS, CHAIN, frozenset((1,)))
    assert (parts(cut), cut.on) == ([{"r"}, {"t", "u"}], conjunction(same(R, S), same(S, T)))


def test_what_only_hangs_together_by_what_changes_is_no_part() -> None:
    star = conjunction(same(R, S), same(R, T), same(R, U))
    assert parts(Cut.of(TERMS, star, frozenset((0,)))) == [{"s"}, {"t"}, {"u"}]
    of_three = Call(
        "LessThan", (Ref(R.columns[0]), Call("Add", (Ref(S.columns[0]), Ref(T.columns[0])), "int")), "boolean"
    )
    assert parts(Cut.of((R, S, T), of_three, frozenset((0,)))) == [{"s"}, {"t"}]
    assert parts(Cut.of((R, S, T), TRUE, frozenset((0,)))) == [{"s"}, {"t"}]
