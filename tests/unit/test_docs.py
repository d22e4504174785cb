"""Documentation that cannot drift: generated pages are compared, names in the glossary exist."""

import ast
import re
from pathlib import Path

import pytest

from tempura.frontend import catalyst
from tempura.rules.catalog import rules_page

ROOT = Path(__file__).parents[2]


def test_the_page_of_rules_is_the_docstrings(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "rules.md"
    if request.config.getoption("--rewrite"):
        page.write_text(rules_page() + "\n", encoding="utf-8")
    assert page.read_text(encoding="utf-8") == rules_page() + "\n"


def test_files_named_in_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", text))
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / "src/tempura" / name).exists() and not (ROOT / name).exists()]


def codes_raised() -> set[str]:
    """The codes of the errors in the source: constants that are the first argument of what makes one."""
    found = {code for code, _ in catalyst._CODES.values()}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            made = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "TempuraError"
            if made and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                found.add(str(node.args[0].value))
    return found


def test_every_error_is_on_the_page_of_errors_and_in_a_test() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
    of_spark = {"INVALID_SQL", "SCALAR_SUBQUERY_TOO_MANY_ROWS"}
    raised = codes_raised()
    assert len(raised) > 60
    assert listed - raised - of_spark == set(), "on the page, but not in the source"
    assert raised - listed - of_spark == set(), "in the source, but not on the page"
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert {code for code in listed if not re.search(rf"\b{code}\b", tests)} == set(), "not provoked by a test"
