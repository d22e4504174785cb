"""What a planner may use: methods, laws at all times, and kinds of links. A value: to add to it is to make another."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType

from tempura.errors import TempuraError
from tempura.rules.dsl import Family, Rule
from tempura.tvr.links import Decomposition

ALL = "all"
"""Stands for every method."""


@dataclass(frozen=True, eq=False)
class Registry:
    """``methods`` are sets of rules by their names; ``laws`` between TVRs at all times are what every method may begin with, in the order
    in which they are tried; ``decompositions`` are the kinds of links along which rules may split TVRs; methods ``on_request`` are used
    where they are asked for by name, and are no part of ``all``; those that are ``recomputing`` compute whatever is due from the tables,
    which all others are measured by. Two are the same if they are one object; :attr:`fingerprint` tells them apart between processes."""

    methods: Mapping[str, tuple[Rule, ...]]
    laws: tuple[Rule, ...] = ()
    decompositions: tuple[Decomposition, ...] = ()
    on_request: frozenset[str] = frozenset()
    recomputing: frozenset[str] = frozenset()

    # --- to add to it ---

    def with_method(self, name: str, rules: Iterable[Rule]) -> "Registry":
        """The same and another method: to be asked for by its name, and part of ``all``. Laws between TVRs at all times among its rules
        serve every method, as they hold whoever uses them. To add the same again changes nothing.

        Raises TempuraError ``BAD_METHOD`` for a name that is taken or no word, and for a rule with the name of another; ``BAD_LINK`` for
        rules that mention parts of no known kind.
        """
        chosen = tuple(dict.fromkeys(rules))
        if self.methods.get(name) == chosen:
            return self
        if not name.isidentifier() or name == ALL or name in self.methods:
            what = f"{name!r} cannot be the name of a method."
            raise TempuraError("BAD_METHOD", what, "Choose a word that no other has.")
        strange = [rule for rule in chosen if not isinstance(rule, Rule)]
        if strange:
            what = f"Method {name} has {strange[0]!r} among its rules."
            raise TempuraError("BAD_METHOD", what, "Make a rule of a function with @rule(…).")
        known = {rule.name: rule for rule in self.rules}
        double = [rule.name for rule in chosen if known.setdefault(rule.name, rule) is not rule]
        if double:
            what = f"Method {name} has rules with the names of others: {', '.join(double)}."
            raise TempuraError("BAD_METHOD", what, "Rename their functions.")
        for rule in chosen:
            self._check_links(rule)
        return replace(self, methods={**self.methods, name: chosen})

    def with_decomposition(self, decomposition: Decomposition) -> "Registry":
        """The same and kinds of links whose parts add up to the whole. To add the same again changes nothing.

        Raises TempuraError ``BAD_LINK`` for a kind whose name is taken or no word.
        """
        if decomposition in self.decompositions:
            return self
        names = [part.name for part in decomposition.parts]
        taken = {part.name for known in self.decompositions for part in known.parts}
        bad = [name for i, name in enumerate(names) if name in taken or name in names[:i] or not name.isidentifier()]
        promised = [part.name for part in decomposition.parts if part.grows and decomposition.by_table]
        promised += [part.name for part in decomposition.parts if part.unaffected and not decomposition.by_table]
        if promised:
            what = f"{', '.join(promised)} of {decomposition} makes a promise that has no meaning there."
            raise TempuraError("BAD_LINK", what, "A part by table may be unaffected by it; another may grow.")
        if names and all(part.grows for part in decomposition.parts):
            what = f"All parts of {decomposition} grow, so where would a row be that is lost?"
            raise TempuraError("BAD_LINK", what, "Add a part that may lose rows; a rule may say that it has none.")
        if bad or not names:
            what = f"{', '.join(map(repr, bad)) or 'Nothing'} cannot be the name of a kind of link."
            raise TempuraError("BAD_LINK", what, f"Choose words that no other has: there are {', '.join(taken)}.")
        return replace(self, decompositions=(*self.decompositions, decomposition))

    def _check_links(self, rule: Rule) -> None:
        """A rule mentions kinds of links that there are, and splits into all parts of one decomposition."""
        known = {part.name: found.by_table for found in self.decompositions for part in found.parts}
        mentioned = {*((kind, rule.by_table) for kind in rule.splits), *rule.reads}
        unknown = sorted({kind for kind, _ in mentioned} - known.keys())
        remedy = "Add their decomposition first: registry.with_decomposition(…)."
        if unknown:
            raise TempuraError("BAD_LINK", f"Rule {rule.name}: no kind of link is named {', '.join(unknown)}.", remedy)
        self._check_tables(rule, {kind for kind, by_table in mentioned if by_table != known[kind]})
        whole = [{part.name for part in found.parts} for found in self.decompositions]
        if rule.splits and set(rule.splits) not in whole:
            what = (
                f"Rule {rule.name} splits into {', '.join(rule.splits)}, which are not all parts of one decomposition."
            )
            raise TempuraError("BAD_LINK", what, "Say every part; None stands for no rows.")

    @staticmethod
    def _check_tables(rule: Rule, confused: set[str]) -> None:
        if confused:
            what = f"Rule {rule.name} asks for {', '.join(sorted(confused))} without a table, or for a table by which nothing is split."
            remedy = (
                "By table write Q.part(kind, T) and split with a parameter T: Table; otherwise Q.part(kind), and no T."
            )
            raise TempuraError("BAD_LINK", what, remedy)

    # --- what is in it ---

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """All rules, each once."""
        return tuple(dict.fromkeys((*(rule for rules in self.methods.values() for rule in rules), *self.laws)))

    @cached_property
    def laws_at_all_times(self) -> tuple[Rule, ...]:
        """What every search begins with: the laws, and those between TVRs at all times that methods have."""
        added = (rule for rules in self.methods.values() for rule in rules if rule.family is Family.LOGICAL)
        return tuple(dict.fromkeys((*self.laws, *added)))

    def names_of(self, methods: Iterable[str]) -> tuple[str, ...]:
        """The names of a set of methods, each once; ``all`` stands for every method but those on request. Raises TempuraError
        ``UNKNOWN_METHOD``."""
        asked = tuple(dict.fromkeys(methods))
        unknown = [name for name in asked if name not in self.methods and name != ALL]
        every = [name for name in self.methods if name in asked or name not in self.on_request]
        names = tuple(every) if ALL in asked else asked
        if unknown or not names:
            known = ", ".join([*self.methods, ALL])
            what = f"no incremental method named {unknown or asked}."
            raise TempuraError("UNKNOWN_METHOD", what, f"Choose from: {known}.")
        return names

    def rules_of(self, methods: Iterable[str]) -> tuple[Rule, ...]:
        """The rules of a set of methods, each once. Raises TempuraError ``UNKNOWN_METHOD``."""
        return tuple(dict.fromkeys(rule for name in self.names_of(methods) for rule in self.methods[name]))

    def only_recomputes(self, methods: Iterable[str]) -> bool:
        """Whether methods do nothing but recompute."""
        return self.recomputing.issuperset(methods)

    def methods_with(self, rule: str) -> tuple[str, ...]:
        """The methods that have the rule of a name; ``all`` for a law at all times, which serves every method."""
        if any(law.name == rule for law in self.laws_at_all_times):
            return (ALL,)
        return tuple(name for name, rules in self.methods.items() if any(found.name == rule for found in rules))

    @cached_property
    def fingerprint(self) -> str:
        """What tells whether another process plans by the same rules: a digest of the methods, what their rules declare, and the files in
        which these are defined. Where a rule is defined in no file, of its code."""
        named = [f"{name}: {' '.join(rule.name for rule in rules)}" for name, rules in self.methods.items()]
        rules = [_described(rule) for rule in self.rules]
        declared = (*sorted(self.on_request), f"recomputing: {' '.join(sorted(self.recomputing))}")
        parts = (*named, *declared, *map(str, self.decompositions), *rules)
        return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _described(rule: Rule) -> str:
    declared = (
        rule.family.value,
        rule.law,
        rule.undoes,
        rule.replaces,
        rule.any_time,
        rule.by_definition,
        rule.origin.value,
        rule.by_reference,
    )
    return f"{rule.name} {declared} {_origin(rule.function)} {_origin(rule.why)}"


def _origin(function: object) -> str:
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, FunctionType):
        return repr(function)
    try:
        return _digest(Path(inspect.getsourcefile(function) or ""))
    except (OSError, TypeError):
        return sha256("\n".join(_code(function.__code__)).encode()).hexdigest()


@cache
def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(constant)
