"""Rules taken away at random: what a query gives must not depend on which rules there are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tempura.rules.core import recompute_snapshot
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry

SHARE = 0.15
"""The probability with which a rule is taken away."""


@dataclass(frozen=True, slots=True)
class KnockOut:
    """The name of a method, and the names of the rules that it lacks."""

    method: str
    without: tuple[str, ...]


def knocked_out(methods: Sequence[str], seed: str) -> tuple[KnockOut, Registry]:
    """A method with the rules of ``methods``, some taken away, and Tempura's registry with it. To recompute everything is never among its
    rules: it would often be the cheapest plan, and show nothing."""
    random, rules = Random(seed), TEMPURA.rules_of(methods)
    kept = tuple(rule for rule in rules if rule is not recompute_snapshot and random.random() >= SHARE)
    found = KnockOut(f"{'+'.join(methods)} without {seed}", tuple(rule.name for rule in rules if rule not in kept))
    return found, replace(TEMPURA, methods={**TEMPURA.methods, found.method: kept})
