"""What the rows of a table are to be made of: whether that is there and can be followed, how it is read, and which columns it has."""

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.frontend.narrow import unkept
from tempura.warehouse.catalog import Catalog
from tempura.warehouse.declared.declare import TableSpec
from tempura.warehouse.declared.kafka import KafkaSpec, check_record_options, checked
from tempura.warehouse.declared.places import check_source_place
from tempura.warehouse.declared.text import check_format
from tempura.warehouse.engine import Engine, schema_of
from tempura.warehouse.sources.folder import Folder
from tempura.warehouse.sources.lake import LAKES, Lake
from tempura.warehouse.sources.widening import beginning
from tempura.warehouse.tables.site import Site


def topic_of(name: str, given: TableSpec) -> KafkaSpec | None:
    """The topic of a table of ``format="kafka"``; None for another one. Raises TempuraError BAD_SOURCE, BAD_OPTION."""
    if given.kafka and given.format != "kafka":
        what = f"Table {name} has the format {given.format}, and options of a Kafka topic."
        raise TempuraError("BAD_SOURCE", what, 'Say format="kafka".', "Say --format kafka.")
    return checked(name, given.kafka) if given.kafka else None


def check_of_files(name: str, given: TableSpec) -> None:
    """Raises TempuraError BAD_OPTION for what is said of files where none are looked for: of a table without a path, or of a lake."""
    if given.kafka or (given.path is not None and given.format not in LAKES):
        return
    of_lake, plain = ("settle", "follow_links"), TableSpec("")
    for option in of_lake if given.path is not None else ("format", "options", *of_lake):
        if getattr(given, option) != getattr(plain, option):
            where = "without a path" if given.path is None else f"of format {given.format}"
            raise TempuraError("BAD_OPTION", f"Table {name} {where} cannot have {option}.", "Leave it out.")


def reading(engine: Engine, given: TableSpec, declared: TableSpec | None) -> Mapping[str, str]:
    """The options of a format, the time zone in which text is read among them: pinned, whatever a later session says. Raises TempuraError
    BAD_OPTION, UNSUPPORTED_FORMAT."""
    format, options = given.format, dict(given.options)
    if given.kafka:
        check_record_options(given.kafka, options)
        format = given.kafka.value_format
    else:
        check_format(format, options)
    if format not in ("csv", "json") or "timeZone" in options:
        return options
    zone = declared.options.get("timeZone") if declared else None
    return options | {"timeZone": zone or engine.settings()["spark.sql.session.timeZone"]}


def check_source(catalog: Catalog, name: str, spec: TableSpec) -> None:
    """Raises TempuraError for a source that could not be followed: BAD_SOURCE, FEED_OFF, LAKE_AS_FILES, UNSUPPORTED_FORMAT,
    LINK_LEADS_OUT."""
    site = catalog.site
    if spec.path is None:
        return
    check_source_place(site.root, name, spec.path, catalog.declared)
    if spec.format in LAKES:
        Lake(site.engine, name, spec, (site.root / spec.path).resolve()).check_followed()
    else:
        _folder(site, name, spec).files()


def _folder(site: Site, name: str, spec: TableSpec) -> Folder:
    return Folder(site.engine, name, spec, (site.root / str(spec.path)).resolve())


# --- columns ----------------------------------------------------------------------------------------------------------


def with_columns(
    catalog: Catalog, name: str, spec: TableSpec, schema: str | StructType | None, declared: TableSpec | None
) -> TableSpec:
    """A declaration with the columns that are given, else with those that are ``declared``, else with those that the source has; of a
    topic in Avro with the schema of its records, too. Raises TempuraError BAD_SCHEMA, FOLDER_MISSING, and what is wrong with the source."""
    engine = catalog.site.engine
    if spec.kafka and spec.kafka.value_format == "avro":
        columns = schema if schema is not None or not declared else declared.schema
        schema, spec = _with_avro(engine, name, spec, columns, declared.kafka if declared else None)
    ddl = declared.schema if declared and schema is None else _columns(catalog, name, spec, schema)
    if declared and declared.added and ddl == _first_columns(engine, declared):
        # Columns that were added later are no other declaration.
        ddl = declared.schema
    return replace(spec, schema=ddl, added=declared.added if declared else ())


def _with_avro(
    engine: Engine, name: str, spec: TableSpec, schema: str | StructType | None, known: KafkaSpec | None
) -> tuple[StructType, TableSpec]:
    """The columns of a topic in Avro, and its declaration with the schema of its records: pinned, whoever gave which."""
    assert spec.kafka is not None
    columns = engine.given_schema(schema) if schema is not None else None
    given = spec.kafka.avro_schema or (known.avro_schema if known else "")
    columns, avro = engine.avro(name, columns, given)
    return columns, replace(spec, kafka=replace(spec.kafka, avro_schema=avro))


def _columns(catalog: Catalog, name: str, spec: TableSpec, schema: str | StructType | None) -> str:
    engine = catalog.site.engine
    if spec.query is not None:
        parsed = schema_of(engine, catalog.query(spec.query).lifted)
    elif schema is not None:
        parsed = engine.given_schema(schema)
    elif spec.path is None:
        what = f"{'Managed table' if spec.kafka is None else 'Table'} {name} has no schema."
        raise TempuraError("BAD_SCHEMA", what, 'Add schema="id INT, …".', 'Add --schema "id INT, …".')
    else:
        parsed = _inferred(catalog.site, name, spec)
    if not parsed.fields or len({f.name.lower() for f in parsed.fields}) < len(parsed.fields):
        raise TempuraError("BAD_SCHEMA", f"Table {name}: no columns, or two of the same name.", "Name each once.")
    for column in parsed.fields:
        text = column.dataType.simpleString()
        if found := unkept(text):
            what = f"Table {name}: column {column.name} is of type {text}: values of {found} are kept in no file."
            raise TempuraError("UNSUPPORTED_TYPE", what, "Give it another type, such as STRING.")
    return engine.schema_text(parsed)


def _first_columns(engine: Engine, declared: TableSpec) -> str:
    """The columns of a table without those that were added later."""
    schema = engine.parse_schema(declared.schema)
    return engine.schema_text(beginning(schema, len(schema.fields) - len(declared.added)))


def _inferred(site: Site, name: str, spec: TableSpec) -> StructType:
    if spec.format in LAKES:
        return site.engine.lake_schema(spec.format, (site.root / str(spec.path)).resolve())
    folder = _folder(site, name, spec)
    files = folder.files()
    if not files:
        what = f"Table {name}: {folder.path} holds no files to take the schema from."
        raise TempuraError("FOLDER_MISSING", what, "Give the schema, or put a file there first.")
    return site.engine.infer_schema(folder.file_set(files, StructType()))
