"""Properties that are computed once, and operators over other inputs."""

from dataclasses import dataclass, field, replace

from tempura.algebra.once import cached_property
from tempura.algebra.rel import Join, Opaque, Scan, over
from tempura.algebra.scalar import Column, Ref, equal
from tempura.errors import Reason


@dataclass(frozen=True)
class Counted:
    asked: list[str] = field(default_factory=list)

    @cached_property
    def value(self) -> int:
        """What is computed."""
        self.asked.append("value")
        return len(self.asked)


def test_a_value_is_computed_once_for_each_object() -> None:
    one, other = Counted(), Counted()
    assert (one.value, one.value, other.value) == (1, 1, 1)
    assert one.asked == other.asked == ["value"]
    assert Counted.value.__doc__ == "What is computed."


A, B = Column("1", "a", "int"), Column("2", "b", "int")
R, S, MORE = Scan("r", ("a",), (A,)), Scan("s", ("b",), (B,)), Scan("r", ("a", "c"), (A, Column("3", "c", "int")))


def test_an_operator_over_other_inputs_is_a_new_one_with_all_else() -> None:
    join = Join(R, S, "left", equal(Ref(A), Ref(B)))
    known = (hash(join), len(join.columns))
    made = over(join, left=MORE)
    assert made == replace(join, left=MORE) != join
    assert (hash(made), len(made.columns)) == (hash(replace(join, left=MORE)), 3)
    assert (hash(join), len(join.columns)) == known


def test_what_takes_no_part_in_equality_stays_too() -> None:
    opaque = Opaque((R,), (A,), "key", Reason("UDF", "a reason"), handle=[1])
    made = over(opaque, tables=(S,))
    assert made.handle is opaque.handle
    assert made.reason is opaque.reason
