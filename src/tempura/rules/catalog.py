"""The rules as a page of documentation (docs/rules.md), generated from their docstrings."""

import inspect

from tempura.rules.dsl import Family, Rule
from tempura.rules.methods import CORE, REWRITES, TEMPURA

_HEADING = """# Rules

Generated from the docstrings in `src/tempura/rules` by `script/test --rewrite`; do not edit. How to write one: `writing-a-rule.md`.
Notation: `R[:t]` is the snapshot of R at t, `R[t:u]` or `Δ` its delta, `⋈ ⟕ ⟗ ⋉ ▷ ∃` inner, left, full, semi, anti and existence join
(`L ∃ R` is `L ⋉ R` with TRUE and `L ▷ R` with FALSE: EXISTS and IN as a value, or below an OR),
`pad` appends NULL columns, `support` the rows that changed, `P(R)` and `N(R)` are parts of R (`R.P`, `R.N` in code),
`D[T](R)`, `I[T](R)` and `U[T](R)` its parts by a table (`R.part("D", T)`): directly affected by it, indirectly, not at all.
Numbers in brackets: `src/tempura/rules/CITATIONS.md`."""


def rules_page() -> str:
    """The page, as Markdown."""
    parts = [_HEADING]
    for family in Family:
        rules = [rule for rule in TEMPURA.rules if rule.family is family]
        if rules:
            parts += [f"## {family.value}", *map(_entry, rules)]
    return "\n\n".join(parts)


def _entry(rule: Rule) -> str:
    text = inspect.cleandoc(rule.function.__doc__ or "").splitlines()
    why = " ".join(line.strip() for line in text[1:] if line.strip())
    cites = "".join(f" [{number}]" for number in rule.cite)
    body = f"```\n{rule.law}\n```"
    return f"### {rule.name}\n\n{body}\n\n{why + ' ' if why else ''}Methods: {', '.join(_methods(rule))}.{cites}"


def _methods(rule: Rule) -> list[str]:
    names = [name for name, rules in TEMPURA.methods.items() if rule in rules]
    return ["all"] if rule in REWRITES else ["core", *names] if rule in CORE else names
