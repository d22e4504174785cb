"""Commands on rules: ``rules list``, ``rules check``."""

from types import ModuleType

import click

from tempura.cli.options import json_option
from tempura.cli.shell import FAILED, Shell, example, is_warehouse
from tempura.errors import TempuraError
from tempura.laws.examine import CASES, Outcome, as_test, examine
from tempura.rules.dsl import Rule
from tempura.rules.methods import TEMPURA
from tempura.rules.modules import extended, load
from tempura.rules.registry import Registry

HAS_EXTEND = "extend"


@click.group(epilog=example("tempura rules check my_rules"))
def rules() -> None:
    """The rules that plans are made by, and the proof of your own."""


@rules.command("list", epilog=example("tempura rules list --json"))
@json_option
@click.pass_obj
def list_rules(shell: Shell, as_json: bool) -> None:
    """List the rules, their methods and their laws.

    In a warehouse its own, with those of the modules that its tempura.toml names; elsewhere those of Tempura.
    """
    registry = shell.warehouse.rules if is_warehouse(shell.folder) else TEMPURA
    if as_json:
        found = [{"name": rule.name, "family": rule.family.value, "law": rule.law} for rule in registry.rules]
        methods = [{"methods": registry.methods_with(rule.name)} for rule in registry.rules]
        shell.json({"registry": registry.fingerprint, "rules": [a | b for a, b in zip(found, methods, strict=True)]})
        return
    rows = [(r.name, r.family.value, ", ".join(registry.methods_with(r.name)), r.law) for r in registry.rules]
    shell.table(("rule", "family", "methods", "law"), rows)
    shell.say(f"{len(rows)} rules, registry {registry.fingerprint}")


@rules.command(epilog=example("tempura rules check my_rules --cases 1000"))
@click.argument("module", metavar="MODULE")
@click.option("--cases", default=CASES, show_default=True, type=click.IntRange(1), help="Random cases per rule.")
@json_option
@click.pass_context
def check(ctx: click.Context, module: str, cases: int, as_json: bool) -> None:
    """Check the rules of a module on random cases.

    Both sides of each law are evaluated on random tables over time, with NULLs, duplicates and deletions. A counter-example is made small
    and printed as a test. MODULE is a name, as after import, and is run; Python has to find it (PYTHONPATH).

    Exit code 0: all hold; 1: one was refuted, or never applied, so that nothing is known of it.
    """
    shell = ctx.ensure_object(Shell)
    registry, own = rules_in(load(module))
    outcomes = []
    for rule in own:
        with shell.progress(f"checking {rule.name}"):
            outcomes.append(examine(rule, cases, registry))
        if not as_json:
            tell(shell, outcomes[-1], module if registry is not TEMPURA else None)
    if as_json:
        shell.json([to_json(outcome, module if registry is not TEMPURA else None) for outcome in outcomes])
    else:
        kinds = [f"{sum(o.kind == kind for o in outcomes)} {told}" for kind, told in _KINDS.items()]
        shell.say(f"{len(outcomes)} rules: {', '.join(kinds)}")
    ctx.exit(0 if all(outcome.kind == "holds" for outcome in outcomes) else FAILED)


_KINDS = {"holds": "hold", "refuted": "refuted", "vacuous": "never applied"}


def rules_in(module: ModuleType) -> tuple[Registry, list[Rule]]:
    """The registry that a module makes, and its own rules: those it defines, and those it adds to Tempura's.

    Raises TempuraError NO_RULES, and as ``rules.modules`` does.
    """
    registry = extended(TEMPURA, (module.__name__,)) if hasattr(module, HAS_EXTEND) else TEMPURA
    defined = [found for found in vars(module).values() if isinstance(found, Rule)]
    own = [rule for rule in defined if rule.function.__module__ == module.__name__]
    added = [rule for rule in registry.rules if rule not in TEMPURA.rules]
    if not own and not added:
        what = f"Module {module.__name__} defines no rule and adds none."
        raise TempuraError("NO_RULES", what, "Name a module that has functions with @rule(…).")
    return registry, list(dict.fromkeys((*own, *added)))


def tell(shell: Shell, outcome: Outcome, module: str | None) -> None:
    """What was found out about a rule."""
    counted = f" on {outcome.cases:,} cases" if outcome.kind == "holds" else ""
    why = f": {outcome.why}" if outcome.why else ""
    shell.say(f"{outcome.rule.name}: {_SAID[outcome.kind]}{counted}{why}")
    if outcome.case:
        shell.say("", *as_test(outcome, module).splitlines(), "")


_SAID = {"holds": "holds", "refuted": "REFUTED", "vacuous": "NEVER APPLIED"}


def to_json(outcome: Outcome, module: str | None) -> dict[str, object]:
    """The same as plain data."""
    found: dict[str, object] = {"rule": outcome.rule.name, "law": outcome.rule.law, "verdict": outcome.kind}
    return found | {
        "cases": outcome.cases,
        "why": outcome.why or None,
        "test": as_test(outcome, module) if outcome.case else None,
    }
