"""The interpreter of scalar expressions: three-valued logic, Spark's comparisons, exact arithmetic, casts."""

from collections.abc import Sequence
from decimal import Decimal
from math import inf, isnan, nan

import pytest

from tempura.algebra.evaluate_scalar import evaluate, is_true
from tempura.algebra.scalar import Call, Column, Expr, Literal, Ref
from tempura.errors import TempuraError

T, F, N = (Literal(value, "boolean") for value in (True, False, None))


def call(function: str, operands: Sequence[tuple[object, str]], type: str, mode: str = "ANSI") -> object:
    """The value of a function over constants."""
    return evaluate(Call(function, tuple(Literal(v, t) for v, t in operands), type, mode), {})


def test_and_or_not_are_three_valued() -> None:
    values = {T: True, F: False, N: None}
    for a, left in values.items():
        for b, right in values.items():
            both = False if False in (left, right) else None if None in (left, right) else True
            one = True if True in (left, right) else None if None in (left, right) else False
            assert evaluate(Call("And", (a, b), "boolean"), {}) is both
            assert evaluate(Call("Or", (a, b), "boolean"), {}) is one
    assert [evaluate(Call("Not", (a,), "boolean"), {}) for a in values] == [False, True, None]
    assert [is_true(a, {}) for a in values] == [True, False, False]


def test_logic_does_not_look_at_what_does_not_matter() -> None:
    fails = Call(
        "EqualTo", (Call("Divide", (Literal(1.0, "double"), Literal(0.0, "double")), "double"),) * 2, "boolean"
    )
    assert evaluate(Call("And", (F, fails), "boolean"), {}) is False
    assert evaluate(Call("Or", (T, fails), "boolean"), {}) is True
    assert evaluate(Call("If", (N, fails, F), "boolean"), {}) is False
    assert evaluate(Call("Coalesce", (N, T, fails), "boolean"), {}) is True
    with pytest.raises(TempuraError, match="DIVIDE_BY_ZERO"):
        evaluate(Call("And", (T, fails), "boolean"), {})


@pytest.mark.parametrize(
    ("left", "right", "less", "equal"),
    [
        (1, 2, True, False),
        (nan, nan, False, True),
        (inf, nan, True, False),
        (nan, 1.0, False, False),
        (-0.0, 0.0, False, True),
        ("A", "a", True, False),
        ("", "a", True, False),
        (Decimal("1.0"), Decimal("1.00"), False, True),
        (False, True, True, False),
        ([None], [1], True, False),
        ([nan], [nan], False, True),
        ((1, None), (1, 0), True, False),
    ],
)
def test_comparisons(left: object, right: object, less: bool, equal: bool) -> None:
    operands = (Literal(left, "t"), Literal(right, "t"))
    value = {f: evaluate(Call(f, operands, "boolean"), {}) for f in ("LessThan", "EqualTo", "EqualNullSafe")}
    assert value == {"LessThan": less, "EqualTo": equal, "EqualNullSafe": equal}
    assert evaluate(Call("LessThanOrEqual", operands, "boolean"), {}) is (less or equal)
    assert evaluate(Call("GreaterThan", operands, "boolean"), {}) is (not less and not equal)
    assert evaluate(Call("GreaterThanOrEqual", operands, "boolean"), {}) is (not less)


def test_null_in_comparisons() -> None:
    null, one = Literal(None, "int"), Literal(1, "int")
    for function in ("EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"):
        assert evaluate(Call(function, (null, one), "boolean"), {}) is None
        assert evaluate(Call(function, (null, null), "boolean"), {}) is None
    assert evaluate(Call("EqualNullSafe", (null, null), "boolean"), {}) is True
    assert evaluate(Call("EqualNullSafe", (null, one), "boolean"), {}) is False
    assert evaluate(Call("IsNull", (null,), "boolean"), {}) is True
    assert evaluate(Call("IsNotNull", (null,), "boolean"), {}) is False


@pytest.mark.parametrize(
    ("value", "listed", "expected"),
    [(1, [1, None], True), (1, [2, None], None), (1, [2], False), (None, [1], None), (nan, [nan], True)],
)
def test_in_is_null_aware(value: object, listed: list[object], expected: bool | None) -> None:
    assert call("In", [(value, "t"), *((item, "t") for item in listed)], "boolean") is expected


def test_case_when_takes_the_first_true_branch() -> None:
    one, two, three = (Literal(i, "int") for i in (1, 2, 3))
    assert evaluate(Call("CaseWhen", (N, one, T, two, T, three), "int"), {}) == 2
    assert evaluate(Call("CaseWhen", (N, one, F, two, three), "int"), {}) == 3
    assert evaluate(Call("CaseWhen", (N, one, F, two), "int"), {}) is None


@pytest.mark.parametrize(
    ("function", "left", "right", "type", "expected"),
    [
        ("Add", Decimal("0.10"), Decimal("0.20"), "decimal(6,2)", "0.30"),
        ("Multiply", Decimal("1.5"), Decimal("-0.05"), "decimal(5,3)", "-0.075"),
        ("Subtract", Decimal("99.9"), Decimal("0.09"), "decimal(5,2)", "99.81"),
        ("Divide", Decimal("1.00"), Decimal("3.00"), "decimal(10,6)", "0.333333"),
        ("Divide", Decimal("-2.00"), Decimal("3.00"), "decimal(10,6)", "-0.666667"),
        ("Divide", Decimal("1.00"), Decimal("8.00"), "decimal(4,2)", "0.13"),
        ("Add", Decimal(10) ** 37, Decimal(1), "decimal(38,0)", "1" + "0" * 36 + "1"),
    ],
)
def test_decimals_are_exact_to_the_last_digit(
    function: str, left: Decimal, right: Decimal, type: str, expected: str
) -> None:
    assert str(call(function, [(left, "d"), (right, "d")], type)) == expected


@pytest.mark.parametrize(
    ("function", "left", "right", "type", "code", "legacy"),
    [
        ("Add", 2**31 - 1, 1, "int", "ARITHMETIC_OVERFLOW", -(2**31)),
        ("Subtract", -(2**63), 1, "bigint", "ARITHMETIC_OVERFLOW", 2**63 - 1),
        ("Multiply", Decimal("9.9"), Decimal("9.9"), "decimal(2,1)", "ARITHMETIC_OVERFLOW", None),
        ("Divide", Decimal(1), Decimal(0), "decimal(10,6)", "DIVIDE_BY_ZERO", None),
        ("Divide", 1.0, 0.0, "double", "DIVIDE_BY_ZERO", None),
    ],
)
def test_impossible_results_follow_the_mode(
    function: str, left: object, right: object, type: str, code: str, legacy: object
) -> None:
    operands = [(left, type), (right, type)]
    for mode in ("ANSI", ""):
        with pytest.raises(TempuraError, match=code):
            call(function, operands, type, mode)
    assert call(function, operands, type, "LEGACY") == legacy
    assert call(function, operands, type, "TRY") is None


@pytest.mark.parametrize("function", ["Add", "Subtract", "Multiply", "Divide"])
def test_arithmetic_with_null_is_null(function: str) -> None:
    assert call(function, [(None, "double"), (0.0, "double")], "double") is None


def test_unary_minus() -> None:
    assert call("UnaryMinus", [(5, "int")], "int") == -5
    assert str(call("UnaryMinus", [(0.0, "double")], "double")) == "-0.0"
    assert call("UnaryMinus", [(None, "int")], "int") is None
    assert call("UnaryMinus", [(-(2**31), "int")], "int", "LEGACY") == -(2**31)


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (1.9, "double", "int", 1),
        (-1.9, "double", "int", -1),
        (Decimal("-1.9"), "decimal(2,1)", "bigint", -1),
        (True, "boolean", "int", 1),
        (" 42 ", "string", "int", 42),
        (0.125, "double", "decimal(3,2)", Decimal("0.13")),
        (7, "int", "decimal(3,1)", Decimal("7.0")),
        (Decimal("0.005"), "decimal(4,3)", "decimal(3,2)", Decimal("0.01")),
        ("1e1", "string", "decimal(3,1)", Decimal("10.0")),
        (Decimal("0.1"), "decimal(2,1)", "double", 0.1),
        (0.1, "double", "float", 0.10000000149011612),
        ("1.5", "string", "double", 1.5),
        (Decimal("0.10"), "decimal(3,2)", "string", "0.10"),
        (True, "boolean", "string", "true"),
        (5, "int", "string", "5"),
        ("yes", "string", "boolean", True),
        (0, "int", "boolean", False),
    ],
)
def test_cast(value: object, source: str, target: str, expected: object) -> None:
    result = call("Cast", [(value, source)], target)
    assert (type(result), str(result)) == (type(expected), str(expected))


@pytest.mark.parametrize(
    ("value", "source", "target", "legacy"),
    [
        ("x", "string", "int", None),
        ("1_000", "string", "int", None),
        ("1_0.0", "string", "double", None),
        (1e10, "double", "int", 2**31 - 1),
        (nan, "double", "int", 0),
        (300, "int", "tinyint", 44),
        (Decimal(100), "decimal(3,0)", "decimal(2,0)", None),
        (nan, "double", "decimal(3,1)", None),
        ("maybe", "string", "boolean", None),
    ],
)
def test_impossible_casts_follow_the_mode(value: object, source: str, target: str, legacy: object) -> None:
    with pytest.raises(TempuraError, match=r"CAST_INVALID_INPUT|ARITHMETIC_OVERFLOW"):
        call("Cast", [(value, source)], target)
    assert call("Cast", [(value, source)], target, "LEGACY") == legacy
    assert call("Cast", [(value, source)], target, "TRY") is None


def test_sum_and_average_of_a_state() -> None:
    total, count = Column("t", "t", "decimal(15,2)"), Column("n", "n", "bigint")

    def final(function: str, type: str, argument: str, t: object, n: int) -> object:
        expr: Expr = Call(function, (Ref(total), Ref(count)), type, f"{argument};ANSI")
        return evaluate(expr, {total: t, count: n})

    assert final("SumOf", "decimal(15,2)", "decimal(5,2)", Decimal("3.00"), 2) == Decimal("3.00")
    assert final("SumOf", "decimal(15,2)", "decimal(5,2)", Decimal("0.00"), 0) is None
    assert final("SumOf", "bigint", "bigint", Decimal(7), 1) == 7
    assert isinstance(final("SumOf", "bigint", "bigint", Decimal(7), 1), int)
    assert str(final("AverageOf", "decimal(9,6)", "decimal(5,2)", Decimal("2.00"), 3)) == "0.666667"
    assert str(final("AverageOf", "decimal(18,6)", "decimal(14,2)", Decimal("2.00"), 3)) == "0.666667"
    assert final("AverageOf", "double", "int", 2, 3) == 2 / 3
    assert final("AverageOf", "double", "int", 0, 0) is None


def test_what_is_not_known_is_refused() -> None:
    for unknown in (
        Call("Rand", (), "double"),
        Call("Cast", (Literal("2024-01-01", "string"),), "date"),
        Call("EqualTo", (Literal({}, "map<int,int>"),) * 2, "boolean"),
        Call("EqualTo", (Literal("a", "string collate UTF8_LCASE"),) * 2, "boolean"),
    ):
        with pytest.raises(TempuraError, match="NOT_INTERPRETED"):
            evaluate(unknown, {})


def test_float_arithmetic_is_that_of_the_machine() -> None:
    assert call("Add", [(0.1, "double"), (0.2, "double")], "double") == 0.1 + 0.2
    result = call("Multiply", [(inf, "double"), (0.0, "double")], "double")
    assert isinstance(result, float)
    assert isnan(result)
