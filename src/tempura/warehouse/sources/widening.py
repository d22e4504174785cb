"""Tables that got more columns: a schema only grows at its end, and rows that arrived before hold NULL in what was added."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql.types import StructField, StructType

from tempura.errors import TempuraError, TempuraWarning
from tempura.warehouse.batches.arrivals import Arrival, ColumnSummary
from tempura.warehouse.declared.declare import NEW_COLUMNS, DeclarationFile, TableSpec
from tempura.warehouse.engine import Engine
from tempura.warehouse.sources.feed import anew


def width(arrived: str, schema: StructType) -> int | None:
    """How many of a table's columns its rows had when they arrived under the schema ``arrived``; None when that is no beginning of
    ``schema``."""
    beginnings = (n for n in range(len(schema.fields), 0, -1) if beginning(schema, n).simpleString() == arrived)
    return next(beginnings, None)


def widths(arrivals: Iterable[Arrival], schema: StructType) -> dict[str, int | None]:
    """The same for each schema under which some rows arrived."""
    return {arrived: width(arrived, schema) for arrived in {arrival.schema for arrival in arrivals}}


def beginning(schema: StructType, n: int) -> StructType:
    """The first ``n`` columns."""
    return StructType(schema.fields[:n])


def check_arrived(table: str, arrivals: Iterable[Arrival], schema: StructType) -> None:
    """Raises TempuraError SCHEMA_CHANGED when rows arrived under a schema that the declared one does not only add columns to."""
    for arrived, n in widths(arrivals, schema).items():
        if n is None:
            what = f"Table {table} is declared as {schema.simpleString()}, but its rows arrived as {arrived}."
            remedy = "Restore the schema (columns may be added at its end)"
            raise TempuraError("SCHEMA_CHANGED", what, *anew(table, remedy))


def summaries(arrivals: Sequence[Arrival], schema: StructType) -> Iterator[Mapping[str, ColumnSummary]]:
    """What is known of the columns of each arrival, those that were added since among them."""
    known = widths(arrivals, schema)
    for arrival in arrivals:
        later = schema.names[known[arrival.schema] or len(schema.fields) :]
        yield {**arrival.columns, **dict.fromkeys(later, ColumnSummary(nulls=sum(arrival.rows)))}


def add_columns(
    declarations: DeclarationFile, engine: Engine, name: str, spec: TableSpec, columns: Sequence[StructField]
) -> TableSpec:
    """Declare more columns of a table, at its end, in one atomic edit: rows that have arrived hold NULL in them, and so do new files
    that lack them. Returns the table as it is declared now; a column that is there already with this type is left out.

    Raises TempuraError SCHEMA_CHANGED for a column that is there with another type, or under a name that differs by case only;
    COMMIT_LOST when another process has changed the declaration meanwhile.
    """
    schema = engine.parse_schema(spec.schema)
    known = {field.name.lower(): field for field in schema.fields}
    new: dict[str, StructField] = {}
    for field in columns:
        key = field.name.lower()
        if not _is_there(name, known.get(key) or new.get(key), field):
            new[key] = field
    if not new:
        return spec
    wider = engine.schema_text(StructType([*schema.fields, *new.values()]))
    added = (*spec.added, *(field.name for field in new.values()))
    after = replace(spec, schema=wider, added=added)
    declarations.change_table(name, spec, after)
    return after


def check_new_columns(table: str, spec: TableSpec) -> None:
    """Raises TempuraError BAD_OPTION for what cannot be said of new columns: nothing, unless they come from files, a lake or a topic."""
    of_files = ("refuse",) if spec.format == "csv" else NEW_COLUMNS
    of_topic = ("refuse", "ignore") if spec.kafka and spec.kafka.value_format == "json" else ("refuse",)
    known = of_files if spec.path is not None else of_topic if spec.kafka else ()
    if spec.new_columns and spec.new_columns not in known:
        of = f"of format {spec.format}" if spec.path is not None else "without a path"
        what = f"Table {table} {of} cannot have new_columns = {spec.new_columns!r}."
        raise TempuraError("BAD_OPTION", what, f"Use one of {', '.join(known)}." if known else "Leave it out.")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Columns of a source that its table does not have: where each was found first, and how the columns of such a place are told."""

    table: str
    places: Mapping[str, Path]
    columns: Callable[[Path], StructType]

    def fields(self, schema: StructType) -> list[StructField]:
        """The columns with their types. Raises TempuraError BAD_SCHEMA, and SCHEMA_CHANGED for one that differs from a column of
        ``schema`` by case only."""
        found = {place: {f.name: f for f in self.columns(place).fields} for place in set(self.places.values())}
        known = {field.name.lower(): field for field in schema.fields}
        fields = [found[place][name] for name, place in self.places.items()]
        return [field for field in fields if not _is_there(self.table, known.get(field.name.lower()), field)]

    def refuse(self, undo: str) -> None:
        """Raises TempuraError WRONG_SCHEMA if there are any; ``undo``: what else may be done."""
        if not self.places:
            return
        name, place = next(iter(self.places.items()))
        what = f"{place}: there is a column {name} that table {self.table} does not have."
        remedy = 'Let new columns be added or ignored: new_columns = "add" or "ignore" in tempura.toml'
        program = (
            f'{remedy} (new_columns= of add_table); or add it: alter_table("{self.table}", add_columns="{name} …")'
        )
        command = f'{remedy} (--new-columns of table add); or add it: tempura table alter {self.table} --add-column "{name} …"'
        raise TempuraError("WRONG_SCHEMA", what, f"{program}; or {undo}.", f"{command}; or {undo}.")


def tell_ignored(table: str, arrivals: Iterable[Arrival], ignored: Iterable[str]) -> None:
    """Warn of columns of a source that are not read, of each the first time."""
    told = {name for arrival in arrivals for name in arrival.ignored}
    new = [name for name in ignored if name not in told]
    if new:
        what = f"Table {table}: its source has columns that the table does not have, and which are not read: {', '.join(new)}."
        warnings.warn(f'{what} new_columns = "add" in tempura.toml adds such columns.', TempuraWarning, stacklevel=2)


def _is_there(table: str, known: StructField | None, column: StructField) -> bool:
    if known is None:
        return False
    if (known.name, known.dataType) == (column.name, column.dataType):
        return True
    what = f"Table {table} has a column {known.name} {known.dataType.simpleString()}, so {column.name} "
    what += f"{column.dataType.simpleString()} cannot be added."
    raise TempuraError("SCHEMA_CHANGED", what, "Give the column another name.")
