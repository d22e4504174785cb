"""Random cases for laws: tables over three times, and metavariables over them, made from the kinds of a rule's parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tempura.algebra.bag import SignedBag
from tempura.algebra.scalar import (
    Column,
)
from tempura.laws.left_sides import Builder
from tempura.laws.relations import TIMES, CaseMaker
from tempura.rules.dsl import GIVEN_KINDS, Family, Rule
from tempura.tvr.tvr import Tvr


@dataclass(frozen=True)
class Case:
    """Tables over time and a value for each metavariable of a rule, facts excepted."""

    tables: Mapping[str, list[SignedBag]]
    bindings: Mapping[str, object]

    def pasteable(self, rule: Rule, extended: bool = False) -> str:
        """Python text that checks this case again, after ``from tempura.laws.replay import *``; ``extended``: with the kinds of links that
        a function ``extend`` adds to Tempura's."""
        tables = "".join(f"        {name!r}: {history!r},\n" for name, history in self.tables.items())
        bindings = "".join(f"        {name!r}: {_text(value)},\n" for name, value in self.bindings.items())
        given = [f"{rule.name},", f"tables={{\n{tables}    }},", f"bindings={{\n{bindings}    }},"]
        given += ["registry=extend(TEMPURA),"] if extended else []
        return "\n".join(["replay(", *(f"    {argument}" for argument in given), ")"])


def _text(value: object) -> str:
    if isinstance(value, Tvr):
        return f"Tvr({value.rel!r})"
    if isinstance(value, tuple):
        return f"({''.join(_text(item) + ', ' for item in value)})"
    return repr(value)


def random_case(rule: Rule, rng: Random) -> Case:
    """A case for a rule; its guard may or may not hold."""
    # In the others each row has a value: failures hide what else may be wrong.
    maker = CaseMaker(rng, raises=rng.random() < 0.25)
    if rule.family is Family.LOGICAL:
        builder = Builder(maker)
        builder.build(rule.pattern)
        return Case(maker.tables, builder.bindings)
    relations = {n: maker.relation(n, k) for n, k in rule.parameters.items() if k in ("Tvr", "Query", "Tvrs", "Sides")}
    sides = [columns for n, value in relations.items() for columns in _sides(value, rule.parameters[n])]
    times = [name for name, kind in rule.parameters.items() if kind == "Time"]
    times[1:1] = [name for name, kind in rule.parameters.items() if kind == "Between"]
    drawn = sorted(rng.sample(range(TIMES), len(times)))
    tables = {n: _table(rule, maker, drawn) for n, kind in rule.parameters.items() if kind == "Table"}
    drawn_apart = {*relations, *times, *tables, *(n for n, kind in rule.parameters.items() if kind in GIVEN_KINDS)}
    others = {n: maker.parameter(k, sides) for n, k in rule.parameters.items() if n not in drawn_apart}
    return Case(maker.tables, {**relations, **others, **tables, **dict(zip(times, drawn, strict=True))})


def _table(rule: Rule, maker: CaseMaker, times: list[int]) -> str:
    """A table: the only one that moves between the times of a rule; by which a rule splits what reads it, or does not."""
    if rule.splits and maker.chance(0.2):
        return maker.table("other", ("int",))
    table = maker.rng.choice(list(maker.tables))
    for history in (rows for name, rows in maker.tables.items() if name != table and len(times) > 1):
        history[times[0] + 1 : times[-1] + 1] = [history[times[0]]] * (times[-1] - times[0])
    return table


def _sides(value: Tvr | tuple[Tvr, ...], kind: str) -> list[tuple[Column, ...]]:
    """The columns of the relations that a metavariable stands for; the terms of a union have the same."""
    if isinstance(value, Tvr):
        return [value.columns]
    return [R.columns for R in value] if kind == "Sides" else [value[0].columns]
