"""What SQL leaves open, and who decides it: which of several right answers an aggregate gives.

Spark takes what comes first: one of -0.0 and 0.0 for the least of them, any row for FIRST, any order for a collected list, any order of
additions of floats. A die decides that for the interpreter. :data:`FIXED` makes it a function of the bag; a :class:`Rolled` one gives
another answer each time, so that what agrees only because ties are broken alike is found out.

Ties in the order of TOP and windows are not left open: there the algebra itself asks for the order of all columns.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import inf, isfinite, nextafter
from random import Random
from typing import TypeVar

from tempura.algebra.arithmetic import Exact
from tempura.algebra.bag import identity

T = TypeVar("T")


class Die:
    """Decides by the text of values: the same for the same bag. Floats are added without rounding."""

    def pick(self, answers: Sequence[T]) -> T:
        """One of one or more right answers."""
        return min(answers, key=repr)

    def total(self, total: Exact) -> Exact:
        """A sum of floats, from the one without rounding."""
        return total


class Rolled(Die):
    """Decides at random; of a sum that a double does not hold exactly the last digit is open."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def pick(self, answers: Sequence[T]) -> T:
        return answers[self.choose(len(answers))]

    def choose(self, number: int) -> int:
        """Which one of so many."""
        return self.random.randrange(number)

    def total(self, total: Exact) -> Exact:
        nearest = float(total)
        if not isfinite(nearest) or Fraction(nearest) == total:
            return total
        towards = (-inf, nearest, inf)[self.random.randrange(3)]
        return Fraction(nextafter(nearest, towards))


def different(values: Sequence[T]) -> list[T]:
    """The values that are not identical, each once."""
    return list({identity(value): value for value in values}.values())


FIXED = Die()
"""What the same bag always gives."""
