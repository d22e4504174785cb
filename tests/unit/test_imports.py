"""Imports point one way only: the order of the packages is the architecture, and no two modules need each other."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

ORDER: tuple[tuple[str, ...], ...] = (
    ("errors", "display", "cache"),
    ("kafka",),
    ("region",),
    ("algebra",),
    ("tvr",),
    ("physical",),
    ("plan.progressive",),  # what a plan is made of is plain data, so that a search may return it
    ("memo",),
    ("rules", "cost"),
    ("search", "laws", "pace"),
    ("plan",),
    ("frontend", "execute", "explain"),
    ("streams",),
    ("warehouse.commits",),
    ("warehouse.batches",),
    ("warehouse.times",),
    ("warehouse.declared",),
    ("warehouse.engine",),
    ("warehouse.sources",),
    ("warehouse.spark",),
    ("warehouse.tables",),
    ("warehouse.runs",),
    ("warehouse", "data"),
    ("",),  # tempura/__init__.py: the public names
    ("bench",),
    ("cli",),
)
"""Lowest first. A module may import its own package and lower rows; packages of one row do not know each other."""

EXCEPTIONS = {
    ("execute", f"frontend.{name}") for name in ("session", "expressions", "bind_window", "java", "later", "compiled")
}
"""Pairs (package that imports, module imported) that are allowed beyond that."""

ONLY_BY = {"data": {"data", "bench", "cli"}}
"""Packages that only some may import: generated benchmark data is nothing that the product depends on."""

Graph = Mapping[str, set[str]]


def modules(source: Path) -> dict[str, Path]:
    """Dotted names below ``tempura``, ``""`` for the package itself, and their files."""
    root = source / "tempura"
    files = {path.relative_to(root).with_suffix("").parts: path for path in sorted(root.rglob("*.py"))}
    return {".".join(p for p in parts if p != "__init__"): path for parts, path in files.items()}


def imported_names(path: Path, package: str) -> Iterator[tuple[str, str | None]]:
    """(module, name) pairs of every import in a file, wherever it stands; ``name`` is None for ``import module``."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((module, alias.name) for alias in node.names)


def import_graph(source: Path) -> Graph:
    """Per module the Tempura modules that it imports. ``from package import module`` counts as an import of the module."""
    known = modules(source)
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        package = ".".join(filter(None, ("tempura", module if path.stem == "__init__" else module.rpartition(".")[0])))
        found = graph.setdefault(module, set())
        for target, name in imported_names(path, package):
            if target == "tempura" or target.startswith("tempura."):
                inner = target.removeprefix("tempura").removeprefix(".")
                deeper = ".".join(filter(None, (inner, name)))
                found.add(deeper if name and deeper in known else inner)
    return graph


def place(module: str) -> tuple[int, str]:
    """The row of a module in the order, and the package by which it stands there."""
    for row, packages in reversed(list(enumerate(ORDER))):
        for package in packages:
            if "." in package and f"{module}.".startswith(f"{package}."):
                return row, package
    for row, packages in enumerate(ORDER):
        if module.partition(".")[0] in packages:
            return row, module.partition(".")[0]
    raise AssertionError(f"tempura.{module} has no place in the order of packages: add it to ORDER")


def is_allowed(importer: str, imported: str) -> bool:
    (row, package), (below, other) = place(importer), place(imported)
    if package not in ONLY_BY.get(other, {package}):
        return False
    same = package == other or package.partition(".")[0] == other.partition(".")[0]
    return below < row or (below == row and same) or (package, imported) in EXCEPTIONS


def violations(graph: Graph) -> list[str]:
    return [
        f"{a or 'tempura'} imports {b or 'tempura'}"
        for a in sorted(graph)
        for b in sorted(graph[a])
        if not is_allowed(a, b)
    ]


def find_cycle(graph: Graph) -> list[str]:
    """The modules of one import cycle; empty when there is none. A module inside a package does not count as its parent."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_packages_import_downward_only() -> None:
    assert violations(import_graph(SOURCE)) == []


def test_no_modules_import_each_other() -> None:
    assert find_cycle(import_graph(SOURCE)) == []


def test_every_module_is_seen() -> None:
    graph = import_graph(SOURCE)
    assert {"errors", "algebra.rel", "plan.progressive", "frontend.start"} <= set(graph)
    assert "algebra.scalar" in graph["algebra.rel"]


def write(source: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = source / "tempura" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return source


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("algebra/a.py", "from tempura.tvr.views import Delta"),
        ("algebra/a.py", "import tempura.search.problem"),
        ("algebra/a.py", "def late() -> None:\n    from tempura.rules import core"),
        ("rules/a.py", "from tempura.cost.model import price"),
        ("rules/a.py", "from ..cost import model"),
        ("execute/a.py", "from tempura.frontend.lift import lift_sql"),
        ("explain/a.py", "from tempura.execute import spark"),
        ("search/a.py", "from tempura.plan.explain import explain"),
        ("warehouse/a.py", "import tempura as tp"),
        ("warehouse/a.py", "from tempura.data.tpcds import make"),
        ("warehouse/commits/a.py", "from tempura.warehouse.batches.arrivals import Arrival"),
        ("warehouse/tables/a.py", "from tempura.warehouse.runs.run import run"),
        ("warehouse/runs/a.py", "from tempura.warehouse.query import Query"),
        ("errors.py", "from tempura.display import DisplayNode"),
        ("physical/a.py", "from tempura.plan.progressive import Step"),
    ],
)
def test_an_import_upward_is_found(tmp_path: Path, file: str, text: str) -> None:
    assert len(violations(import_graph(write(tmp_path, {file: text})))) == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("search/a.py", "from tempura.plan.progressive import Step"),
        ("execute/a.py", "from tempura.frontend.session import clone"),
        ("plan/progressive.py", "from tempura.physical.operators import Read"),
        ("plan/a.py", "from tempura.plan.progressive import Step"),
        ("warehouse/runs/a.py", "from tempura.warehouse.tables.table import Table"),
        ("warehouse/query.py", "from tempura.warehouse.runs.run import run"),
        ("cli/a.py", "import tempura as tp\nfrom tempura.data.tpcds import make\nimport json"),
        ("__init__.py", "from tempura.warehouse.warehouse import open"),
    ],
)
def test_an_import_downward_is_allowed(tmp_path: Path, file: str, text: str) -> None:
    assert violations(import_graph(write(tmp_path, {file: text}))) == []


def test_a_cycle_is_found(tmp_path: Path) -> None:
    files = {"tvr/a.py": "from tempura.tvr import b", "tvr/b.py": "def f() -> None:\n    from .a import g"}
    assert set(find_cycle(import_graph(write(tmp_path, files)))) == {"tvr.a", "tvr.b"}
