"""Rules taken away at random: what a query gives must not depend on which rules there are."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from tempura.rules.core import recompute_snapshot
from tempura.rules.methods import METHODS, rules_of

SHARE = 0.15
"""The probability with which a rule is taken away."""


@dataclass(frozen=True, slots=True)
class KnockOut:
    """The name of a method, and the names of the rules that it lacks."""

    method: str
    without: tuple[str, ...]


@contextmanager
def knocked_out(methods: Sequence[str], seed: str) -> Iterator[KnockOut]:
    """A method with the rules of ``methods``, some taken away, for as long as the context lasts. To recompute everything is never
    among them: it would often be the cheapest plan, and show nothing."""
    random, rules = Random(seed), rules_of(tuple(methods))
    kept = tuple(rule for rule in rules if rule is not recompute_snapshot and random.random() >= SHARE)
    found = KnockOut(f"{'+'.join(methods)} without {seed}", tuple(rule.name for rule in rules if rule not in kept))
    METHODS[found.method] = kept
    try:
        yield found
    finally:
        del METHODS[found.method]
