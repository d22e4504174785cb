"""All right answers: what an evaluation gives under every roll of the die."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TypeVar

from tempura.algebra.bag import SignedBag
from tempura.algebra.die import Die

T = TypeVar("T")
LIMIT = 300
"""So many rolls are tried."""


class TooManyAnswersError(Exception):
    """A case that leaves more open than can be gone through."""


class Exhausting(Die):
    """Gives one sequence of choices after the other. Floats are added without rounding: their last digits are not counted."""

    def __init__(self) -> None:
        self._choices: list[tuple[int, int]] = []
        self._next = 0

    def pick(self, answers: Sequence[T]) -> T:
        if len(answers) == 1:
            return answers[0]
        if self._next == len(self._choices):
            self._choices.append((0, len(answers)))
        self._next += 1
        return answers[self._choices[self._next - 1][0]]

    def advance(self) -> bool:
        """To the next sequence; False after the last."""
        self._next = 0
        while self._choices:
            choice, number = self._choices.pop()
            if choice + 1 < number:
                self._choices.append((choice + 1, number))
                return True
        return False


def answers(compute: Callable[[Die], SignedBag]) -> Iterator[SignedBag]:
    """All that a computation may give. Raises TooManyAnswersError."""
    die = Exhausting()
    for _ in range(LIMIT):
        yield compute(die)
        if not die.advance():
            return
    raise TooManyAnswersError


def without_last_digits(bag: SignedBag) -> SignedBag:
    """The bag with floats rounded, for comparing what was added in another order."""
    return SignedBag((tuple(map(_rounded, row)), weight) for row, weight in bag.items())


def _rounded(value: object) -> object:
    if isinstance(value, float | Fraction):
        return round(float(f"{float(value):.9g}"), 6) + 0.0
    return [_rounded(item) for item in value] if isinstance(value, list) else value
