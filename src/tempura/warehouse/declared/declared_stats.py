"""What a user says of a table's columns, under ``[tables.NAME.stats.COLUMN]``: statistics that count whatever is seen."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from tempura.cost.stats import ColumnStats, number
from tempura.errors import TempuraError
from tempura.warehouse.declared.kinds import is_number


@dataclass(frozen=True, slots=True)
class ColumnTold:
    """What is said of a column; None where nothing is. ``distinct`` values of all rows, the share of rows that are NULL (0 to 1), the
    least and the greatest value as :func:`tempura.cost.stats.number` has them, bytes of a value."""

    distinct: float | None = None
    nulls: float | None = None
    least: float | None = None
    greatest: float | None = None
    width: float | None = None

    def of(self, seen: ColumnStats) -> ColumnStats:
        """What is known with what is said in the place of what was seen. How often values were seen does not count where anything is
        said of how many there are."""
        said: dict[str, Any] = {
            "distinct": self.distinct,
            "null_fraction": self.nulls,
            "low": self.least,
            "high": self.greatest,
            "width": self.width,
        }
        given = {key: value for key, value in said.items() if value is not None}
        if self.distinct is not None or self.nulls is not None:
            given["frequent"] = {}
        return replace(seen, **given)

    def to_toml(self) -> dict[str, float]:
        """What is said."""
        said = {key: value for key, value in asdict(self).items() if value is not None}
        return {key: int(value) if value == int(value) else value for key, value in said.items()}


SAYABLE = tuple(field.name for field in fields(ColumnTold))


def told_of(where: str, data: Mapping[str, Any]) -> ColumnTold:
    """Check what is said of a column. Dates and times may be written as such. Raises TempuraError BAD_STATS."""
    unknown = sorted(set(data) - set(SAYABLE))
    if unknown:
        raise _bad(f"{where} has unknown {', '.join(unknown)}", f"Known: {', '.join(SAYABLE)}.")
    told = ColumnTold(**{key: _number(where, key, value) for key, value in data.items()})
    if told.distinct is not None and told.distinct < 1:
        raise _bad(f"{where}: distinct is {told.distinct:g}", "A column has at least one value: say 1 or more.")
    if told.nulls is not None and not 0 <= told.nulls <= 1:
        raise _bad(f"{where}: nulls is {told.nulls:g}", "Say the share of rows that are NULL, from 0 to 1.")
    if told.width is not None and told.width <= 0:
        raise _bad(f"{where}: width is {told.width:g}", "Say the bytes of a value, more than 0.")
    if told.least is not None and told.greatest is not None and told.least > told.greatest:
        raise _bad(f"{where}: least is {told.least:g}, greatest {told.greatest:g}", "Say the smaller one first.")
    return told


def check_columns(table: str, stats: Mapping[str, ColumnTold], columns: list[str]) -> None:
    """Raises TempuraError BAD_STATS for a column that a table does not have."""
    for name in stats:
        if name not in columns:
            raise _bad(f"Table {table} has no column {name} to say anything of", f"Its columns: {', '.join(columns)}.")


def _number(where: str, key: str, value: object) -> float:
    plain = value.unwrap() if hasattr(value, "unwrap") else value
    # A whole number may be larger than any that is computed with.
    is_known = is_number(plain) or isinstance(plain, Decimal | date | datetime)
    found = number(plain) if is_known else None
    if found is None or not isfinite(found):
        raise _bad(f"{where}: {key} is {plain!r}", "Say a number.")
    return found


def _bad(what: str, remedy: str) -> TempuraError:
    return TempuraError("BAD_STATS", f"{what}.", remedy)
