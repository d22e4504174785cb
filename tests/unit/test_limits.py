"""Which texts of columns may say something that no row is held to: the others are read without Spark."""

import pytest

from tempura.warehouse.declared.limits import may_limit


@pytest.mark.parametrize(
    "ddl", ["k INT NOT NULL", "k INT not\n null", "s VARCHAR(3)", "s varchar (3)", "a ARRAY<CHAR(2)>", "s CHARACTER(2)"]
)
def test_limits_are_seen(ddl: str) -> None:
    assert may_limit(ddl)


@pytest.mark.parametrize(
    "ddl", ["charge INT", "varchar STRING, c_char INT", "k INT COMMENT 'null'", "`not` INT, `null` INT"]
)
def test_names_are_none(ddl: str) -> None:
    assert not may_limit(ddl)
