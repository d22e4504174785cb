"""Values of joined rows as sums of products, each factor of which reads one side of the join (Ahmad et al., VLDB 2012).

``IF(cost IS NULL, price, -cost)`` over sales and returns is ``price`` where ``cost IS NULL``, and ``-cost`` where it is not: two
*cases*, in each of which all conditions, all values that must not be NULL, and all factors read one side. So a total over joined
rows is made of sums and counts over the rows of each side. Only arithmetic that is exact is taken apart: decimals whose result has
all the digits that it may need. Of integers a partial result might leave the type where the whole does not.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from tempura.algebra.failing import can_fail, has_room, is_upcast
from tempura.algebra.scalar import TRUE, Call, Column, Expr, Literal, Ref, same
from tempura.algebra.states import decimal_of

_MOST = 8
"""So many products, and cases, are worth it."""

_WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}

IsOneSided = Callable[[Expr], bool]


@dataclass(frozen=True)
class Product:
    """Factors that are multiplied, each of one side; ``negative``: and taken away."""

    factors: tuple[Expr, ...]
    negative: bool = False

    def times(self, other: "Product") -> "Product":
        """The product of both."""
        return Product(self.factors + other.factors, self.negative != other.negative)

    @property
    def negated(self) -> "Product":
        return Product(self.factors, not self.negative)


@dataclass(frozen=True)
class Case:
    """The value of rows for which all ``tests`` are TRUE, as a sum of products. A row with a value is in one case, any other in none."""

    tests: tuple[Expr, ...]
    products: tuple[Product, ...]


def cases_of(expr: Expr, is_one_sided: IsOneSided) -> tuple[Case, ...] | None:
    """An expression as sums of products by cases; None where it cannot be taken apart, or something that is moved may fail."""
    found = _cases(expr, is_one_sided)
    if found is None or max(len(found), *(len(case.products) for case in found)) > _MOST:
        return None
    return None if any(map(can_fail, _computed(found))) else found


def _computed(cases: tuple[Case, ...]) -> tuple[Expr, ...]:
    tests = (test for case in cases for test in case.tests)
    factors = (factor for case in cases for product in case.products for factor in product.factors)
    return (*tests, *factors)


def _cases(expr: Expr, is_one_sided: IsOneSided) -> tuple[Case, ...] | None:
    if is_one_sided(expr):
        return (Case(present(expr), (Product((expr,)),)),)
    assert isinstance(expr, Call), "a column is of one side"
    match expr.function:
        case "If" | "CaseWhen":
            return _choice(expr.operands, is_one_sided)
        case "UnaryMinus" if decimal_of(expr.type):
            inner = _cases(expr.operands[0], is_one_sided)
            return inner and tuple(Case(c.tests, tuple(p.negated for p in c.products)) for c in inner)
        case "Cast" if decimal_of(expr.type) and is_upcast(expr.operands[0].type, expr.type):
            return _cases(expr.operands[0], is_one_sided)
        case "Add" | "Subtract" | "Multiply" if has_room(expr):
            left, right = (_cases(operand, is_one_sided) for operand in expr.operands)
            return _combined(expr.function, left, right) if left and right else None
    return None


def _combined(function: str, left: tuple[Case, ...], right: tuple[Case, ...]) -> tuple[Case, ...]:
    """Every case of the one with every case of the other."""

    def products(a: Case, b: Case) -> tuple[Product, ...]:
        if function == "Multiply":
            return tuple(p.times(q) for p in a.products for q in b.products)
        return a.products + (b.products if function == "Add" else tuple(q.negated for q in b.products))

    return tuple(Case(tuple(dict.fromkeys(a.tests + b.tests)), products(a, b)) for a in left for b in right)


def _choice(operands: tuple[Expr, ...], is_one_sided: IsOneSided) -> tuple[Case, ...] | None:
    """``IF(p, x, y)`` and ``CASE WHEN p THEN x ... ELSE y``: each branch with its condition, and with no condition before it."""
    found: list[Case] = []
    before: tuple[Expr, ...] = ()
    for condition, value in zip(operands[0:-1:2], operands[1::2], strict=True):
        inner = _cases(value, is_one_sided) if is_one_sided(condition) else None
        if inner is None:
            return None
        found += (Case((*before, condition, *case.tests), case.products) for case in inner)
        before += (unless(condition),)
    otherwise = _cases(operands[-1], is_one_sided) if len(operands) % 2 else ()
    if otherwise is None:
        return None
    return (*found, *(Case(before + case.tests, case.products) for case in otherwise))


# --- tests ------------------------------------------------------------------------------------------------------------


def unless(condition: Expr) -> Expr:
    """That a condition is not TRUE: FALSE or NULL."""
    match condition:
        case Call(function="IsNull" | "IsNotNull"):
            other = "IsNotNull" if condition.function == "IsNull" else "IsNull"
            return Call(other, condition.operands, "boolean")
    return Call("Not", (same(condition, TRUE),), "boolean")


def present(value: Expr) -> tuple[Expr, ...]:
    """Tests that are all TRUE exactly if a value is not NULL."""
    match value:
        case Literal():
            return () if value.value is not None else (Literal(False, "boolean"),)
        case Call(function="UnaryMinus"):
            return present(value.operands[0])
        case Call(function="Add" | "Subtract" | "Multiply") if has_room(value):
            return tuple(dict.fromkeys(test for operand in value.operands for test in present(operand)))
    return (Call("IsNotNull", (value,), "boolean"),)


def with_nulls(expr: Expr, columns: Collection[Column]) -> Expr:
    """An expression where some columns are NULL, without the branches that are not taken then."""
    if isinstance(expr, Ref):
        return Literal(None, expr.type) if expr.column in columns else expr
    if not isinstance(expr, Call) or not any(column in columns for column in expr.columns):
        return expr
    operands = tuple(with_nulls(operand, columns) for operand in expr.operands)
    match expr.function, operands:
        case "IsNull" | "IsNotNull", (Literal(value=value),):
            return Literal((value is None) == (expr.function == "IsNull"), "boolean")
        case "If", (Literal(value=value), then, otherwise):
            return then if value is True else otherwise
        case "UnaryMinus" | "Add" | "Subtract" | "Multiply", _ if any(_is_null(operand) for operand in operands):
            return Literal(None, expr.type)
    return replace(expr, operands=operands)


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


# --- exact arithmetic of rules ----------------------------------------------------------------------------------------


def as_decimal(value: Expr) -> Expr:
    """An integer as a decimal of as many digits; a decimal as it is."""
    if value.type not in _WHOLE:
        return value
    return Call("Cast", (value,), f"decimal({_WHOLE[value.type]},0)", "legacy")


def times(left: Expr, right: Expr) -> Expr | None:
    """The product of two exact numbers, in Spark's type for it: an error if it has more digits, and None where that type rounds."""
    (p, s), (q, t) = _digits(left), _digits(right)
    return _exactly("Multiply", left, right, (p + q + 1, s + t))


def plus(left: Expr, right: Expr, negative: bool = False) -> Expr | None:
    """The sum of two exact numbers, or their difference, in the same way."""
    (p, s), (q, t) = _digits(left), _digits(right)
    scale = max(s, t)
    return _exactly("Subtract" if negative else "Add", left, right, (max(p - s, q - t) + scale + 1, scale))


def _digits(number: Expr) -> tuple[int, int]:
    digits = decimal_of(as_decimal(number).type)
    assert digits, f"not an exact number: {number}"
    return digits


def _exactly(function: str, left: Expr, right: Expr, digits: tuple[int, int]) -> Expr | None:
    """Spark gives up digits behind the point where a type would have more than 38, but for six of them."""
    precision, scale = digits
    if precision > 38 and scale > 6:
        return None
    return Call(function, (as_decimal(left), as_decimal(right)), f"decimal({min(38, precision)},{scale})", "ansi")
