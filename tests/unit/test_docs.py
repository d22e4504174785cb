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


def words(node: ast.AST) -> set[str]:
    """The names and attributes in a piece of source."""
    return {
        n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)
    }


def strings(node: ast.AST) -> set[str]:
    """What could be a code in the texts in a piece of source, patterns among them."""
    texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return {word for text in texts for word in re.findall(r"[A-Z][A-Z_]+", text)}


def codes_in_assertions(test: ast.FunctionDef, constants: dict[str, ast.expr]) -> set[str]:
    """The codes that a test asserts of an error: that it raises (``match=``, or a comparison of the code, with one given by
    the test's table of cases too), or that a command tells of."""
    calls = [n for n in ast.walk(test) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "raises"]
    patterns = [k.value for call in calls for k in call.keywords if k.arg == "match"]
    asserted = [n.test for n in ast.walk(test) if isinstance(n, ast.Assert)]
    told = [a for a in asserted if "stderr" in words(a)]
    compared = [n for a in asserted for n in ast.walk(a) if calls and is_comparison_of_code(n)]
    found = set().union(*map(strings, (*patterns, *told, *compared)))
    if any(not strings(n) for n in compared):
        found |= strings(test).union(*(strings(constants[name]) for name in words(test) & set(constants)))
    return found


def is_comparison_of_code(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq) and "code" in words(node)


def constants_of(module: ast.Module) -> dict[str, ast.expr]:
    found = [(s.targets[0], s.value) for s in module.body if isinstance(s, ast.Assign)]
    return {target.id: value for target, value in found if isinstance(target, ast.Name)}


def codes_provoked(source: str) -> set[str]:
    """The codes that the tests in a file provoke."""
    module = ast.parse(source)
    tests = (n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name.startswith("test"))
    return set().union(*(codes_in_assertions(test, constants_of(module)) for test in tests))


def test_every_error_is_on_the_page_of_errors_and_provoked_by_a_test() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
    of_spark = {"INVALID_SQL", "SCALAR_SUBQUERY_TOO_MANY_ROWS"}
    raised = codes_raised()
    assert len(raised) > 60
    assert listed - raised - of_spark == set(), "on the page, but not in the source"
    assert raised - listed - of_spark == set(), "in the source, but not on the page"
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert listed - set().union(*map(codes_provoked, tests)) == set(), "not provoked by a test"


def test_the_page_for_operators_names_codes_and_tests_that_exist() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", page))
    listed = re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) > 25
    assert named - set(listed) == set()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.endswith("| test |")]
    tests = [re.findall(r"`(test_\w+)`", row.split(" | ")[-1]) for row in rows]
    assert all(tests), "a fault that no test provokes"
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for found in tests for name in found if f"def {name}(" not in sources] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def test():\n with raises(E) as e: f()\n assert e.value.code == 'BAD_NAME'", set()),
        ("def test():\n with pytest.raises(E) as e: f()\n assert e.value.code == 'BAD_NAME'", {"BAD_NAME"}),
        ("def test():\n with pytest.raises(E, match=r'NO_PLAN.*x'): f()", {"NO_PLAN"}),
        ("def test():\n assert '[NO_JAVA]' in result.stderr", {"NO_JAVA"}),
        ("def test():\n with pytest.raises(E) as e: f()\n assert e.value.code in ('BAD_NAME', 'NO_PLAN')", set()),
        ("def test():\n assert reason.code == 'BAD_NAME'", set()),
        (
            "BAD = {'x': 'BAD_NAME'}\ndef test():\n with pytest.raises(E) as e: f()\n assert e.code == BAD[x]",
            {"BAD_NAME"},
        ),
        ("# BAD_NAME\ndef test(x):\n f('NO_PLAN')", set()),
    ],
)
def test_what_counts_as_provoked(source: str, expected: set[str]) -> None:
    assert codes_provoked(source) == expected
