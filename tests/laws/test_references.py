"""Laws by references, with what a planner knows of tables that keep their promises; and with promises that are not kept.

``test_laws`` checks the same laws with guards as sharp as they can be: here the guards themselves are tested.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Join, Rel, Scan
from tempura.algebra.scalar import Call, Column, Expr, Output, Ref, conjunction, conjuncts
from tempura.laws.cases import Case
from tempura.laws.check import Verdict, check
from tempura.memo.memo import Memo
from tempura.memo.references import Inclusion, Pairs, References, equated, fields_of
from tempura.memo.unique import Unique
from tempura.rules.dsl import Rule
from tempura.rules.references import DELTAS, ELIMINATE, delta_outer_join_with_referring
from tempura.search.facts import PlanFacts
from tempura.search.partners import Partners
from tempura.tvr.staircase import TOGETHER, Time
from tempura.tvr.tvr import Tvr
from tests.laws.reference_mutants import REFERENCE_MUTANTS
from tests.plans.references import Referring, ReferringQueries, null_safe, random_tables

TIMES = 3
CASES = 160
RULES = (*DELTAS, delta_outer_join_with_referring, *ELIMINATE)
Tables = dict[str, Referring]
Break = Callable[[Random, Tables], Tables]


def _name(rule: Rule) -> str:
    return rule.name


def _believed(tables: Tables) -> dict[str, object]:
    facts, memo = {name: table.facts(TIMES) for name, table in tables.items()}, Memo()
    keys = {name: table.keys for name, table in facts.items()}
    unique = Unique(memo, {name: known.unique for name, known in keys.items()})
    planner = PlanFacts(facts, memo, 0, TOGETHER)
    return {"Facts": planner, "Promised": References(memo, keys), "Always": unique}


def _case(rule: Rule, random: Random, tables: Tables) -> Case:
    """The metavariables of a law over joins by references."""
    queries = ReferringQueries(random, tuple(tables))
    join = _a_join(queries)
    t, u = sorted(random.sample(range(TIMES), 2))
    bindings: dict[str, object] = {"L": Tvr(join.left), "R": Tvr(join.right), "on": join.on, "t": t, "u": u}
    if "terms" in rule.parameters:
        inner = _a_join(queries)
        while inner.kind != "inner":
            inner = _a_join(queries)
        last = _another(queries, inner)
        if last is not None:
            bindings["terms"], bindings["on"] = tuple(map(Tvr, (inner.left, inner.right, last.right))), last.on
        else:
            bindings["terms"], bindings["on"] = (Tvr(inner.left), Tvr(inner.right)), inner.on
    how = random.choice(("inner", "left", "semi", "anti", "exists"))
    bindings |= {"how": how, "marker": Column("m", "m", "boolean") if how == "exists" else None}
    outputs = random.choice((join.left, join.left, join.right)).columns[:3]
    bindings["outputs"] = tuple(Output(Column(f"o{i}", f"o{i}", c.type), Ref(c)) for i, c in enumerate(outputs))
    bags = {name: [table.snapshot(t) for t in range(TIMES)] for name, table in tables.items()}
    return Case(bags, {name: value for name, value in bindings.items() if name in rule.parameters})


def _a_join(queries: ReferringQueries) -> Join:
    """A join by a reference, of scans mostly."""
    while True:
        deep = queries.random.random() < 0.3
        left, right = queries.query(int(deep)), queries.query(0)
        left, right = (right, left) if queries.random.random() < 0.5 else (left, right)
        on = queries.reference(left, right)
        if on is not None:
            return Join(left, right, "inner", on)


def _another(queries: ReferringQueries, join: Join) -> Join | None:
    """A third relation, which refers to one of two or is referred to."""
    for _ in range(5):
        third = queries.query(0)
        on = queries.reference(join, third)
        if on is not None:
            return Join(join, third, "inner", conjunction(join.on, on))
    return None


def _verdicts(rule: Rule, cases: int, breaks: Break | None = None) -> list[Verdict]:
    """Of so many cases to which the law applies."""
    found: list[Verdict] = []
    for seed in range(8 * cases):
        random = Random(seed)
        tables = random_tables(random, TIMES)
        told = breaks(random, tables) if breaks else tables
        verdict = check(rule, _case(rule, random, told), believed=_believed(told))
        found += [verdict] if verdict.kind != "vacuous" else []
        if len(found) == cases:
            break
    return found


@pytest.mark.parametrize("rule", RULES, ids=_name)
def test_law_holds_where_a_planner_uses_it(rule: Rule) -> None:
    verdicts = _verdicts(rule, CASES)
    wrong = [verdict.why for verdict in verdicts if verdict.kind == "refuted"]
    assert not wrong, wrong[0]
    assert len(verdicts) >= CASES / 4, "it hardly ever applies"


@pytest.mark.parametrize("rule", REFERENCE_MUTANTS, ids=_name)
def test_wrong_rule_is_refuted(rule: Rule) -> None:
    verdicts = [verdict.kind for verdict in _verdicts(rule, CASES)]
    assert verdicts.count("refuted") >= 3


# --- promises that are not kept ---------------------------------------------------------------------------------------


def _altered(tables: Tables, name: str, snapshots: list[SignedBag]) -> Tables:
    bags = [SignedBag(), *snapshots]
    return {**tables, name: replace(tables[name], arrivals=tuple(b - a for a, b in pairwise(bags)), static=False)}


def _snapshots(table: Referring) -> list[SignedBag]:
    return [table.snapshot(t) for t in range(TIMES)]


def partner_arrives_later(random: Random, tables: Tables) -> Tables:
    """One or more partners come one time after they did."""
    name, t = random.choice("oc"), random.randrange(TIMES - 1)
    found = _snapshots(tables[name])
    found[t] = found[t - 1] if t else SignedBag()
    return _altered(tables, name, found)


def partner_goes_before(random: Random, tables: Tables) -> Tables:
    """Partners are deleted, and the rows stay."""
    name, t = random.choice("oc"), random.randrange(1, TIMES)
    found = _snapshots(tables[name])
    gone = SignedBag.of(row for row in found[t].rows() if random.random() < 0.7)
    return _altered(tables, name, [*found[:t], *(bag - gone if (bag - gone).is_positive else bag for bag in found[t:])])


def partner_is_not_the_only_one(random: Random, tables: Tables) -> Tables:
    """A row has the key of another."""
    name, t = random.choice("oc"), random.randrange(TIMES)
    found = _snapshots(tables[name])
    twins = SignedBag.of((row[0], row[1], 9) for row in found[t].rows() if row[0] is not None)
    return _altered(tables, name, [*found[:t], *(bag + twins for bag in found[t:])])


@pytest.mark.parametrize("breaks", [partner_arrives_later, partner_goes_before, partner_is_not_the_only_one])
def test_laws_need_the_promise(breaks: Break) -> None:
    """What a warehouse refuses would give wrong results."""
    verdicts = {rule.name: [v.kind for v in _verdicts(rule, 40, breaks)] for rule in RULES}
    refuted = {name for name, kinds in verdicts.items() if kinds.count("refuted") >= 2}
    assert len(refuted) >= 3, verdicts


# --- wrong facts ------------------------------------------------------------------------------------------------------


def _keys_come_and_go(self: Partners, scan: Scan, columns: tuple[Column, ...], keys: Inclusion, *times: Time) -> bool:
    """Of a table that gets and loses rows a key is taken to be new if its row is."""
    return scan.table == keys.table and fields_of(scan, columns) == keys.key


def _as_seen_by_the_last(self: Partners, inclusion: Inclusion, s: Time, u: Time) -> list[int]:
    """The keys are taken to be those of any time."""
    return list(range(TIMES))


def _null_is_a_value(on: Expr, left: Sequence[Column], right: Sequence[Column]) -> Pairs:
    """NULL is taken to be equal to nothing where it is equal to NULL."""
    plain = conjunction(*(replace(p, function="EqualTo") if isinstance(p, Call) else p for p in conjuncts(on)))
    return equated(plain, left, right)


WRONG = {
    "keys are given again": (Partners, "_table_apart", _keys_come_and_go),
    "rows refer to later partners": (Partners, "_points", _as_seen_by_the_last),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_facts_are_refuted(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, mutant = WRONG[wrong]
    monkeypatch.setattr(owner, name, mutant)
    kinds = [v.kind for rule in DELTAS for v in _verdicts(rule, 60)]
    assert kinds.count("refuted") >= 3


def test_null_that_is_equal_to_null_is_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    def condition(self: ReferringQueries, left: Rel, right: Rel) -> Expr | None:
        on = plain(self, left, right)
        return on and null_safe(on)

    plain = ReferringQueries.reference
    monkeypatch.setattr(ReferringQueries, "reference", condition)
    assert all(verdict.kind != "refuted" for rule in DELTAS for verdict in _verdicts(rule, 30))
    monkeypatch.setattr("tempura.memo.references.equated", _null_is_a_value)
    assert [v.kind for rule in DELTAS for v in _verdicts(rule, 60)].count("refuted") >= 3
