"""Documentation that cannot drift: generated pages are compared, names in the glossary exist."""

import re
from pathlib import Path

import pytest

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
