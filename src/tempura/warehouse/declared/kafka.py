"""Topics of Kafka as tables are declared to be made of them: where the broker is, how values are spelt, where to begin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tempura import kafka as topics
from tempura.errors import TempuraError
from tempura.kafka import Connection, addresses, check_connection, check_place, check_start, connected
from tempura.warehouse.declared.kinds import KAFKA, check_given, check_section
from tempura.warehouse.declared.text import check_format

VALUE_FORMATS = ("json", "csv", "avro")
KEY_FORMATS = ("text", "json")
ON_BAD_RECORD = ("fail", "quarantine")
"""What becomes of a record that does not fit: the run is refused, or the record is set aside."""

NOT_OF_RECORDS = (
    "encoding", "lineSep", "multiLine", "header", "comment", "primitivesAsString", "allowComments", "allowUnquotedFieldNames",
    "allowSingleQuotes", "allowNumericLeadingZeros", "allowNonNumericNumbers",
)  # fmt: skip
"""Options of files that do not apply to a record, which is one line of UTF-8 and strict JSON."""


@dataclass(frozen=True, slots=True)
class KafkaSpec:
    """A topic, and how its records become rows. ``servers`` is ``host:port``, several with commas. ``start`` is where to begin:
    ``earliest``, ``latest``, or offsets by partition, as text. ``key_format`` spells the key of a record without a value, which deletes.
    ``avro_schema`` is JSON. ``connection`` are settings of Kafka's clients for security, secrets by reference."""

    servers: str
    topic: str
    value_format: str = "json"
    key_format: str = "text"
    start: str | Mapping[str, int] = "earliest"
    on_bad_record: str = "fail"
    avro_schema: str = ""
    connection: Mapping[str, str] = field(default_factory=dict)

    def to_toml(self) -> dict[str, Any]:
        """What differs from the default."""
        given: dict[str, Any] = {"servers": self.servers, "topic": self.topic, "value_format": self.value_format}
        if self.key_format != "text":
            given["key_format"] = self.key_format
        given["start"] = self.start if isinstance(self.start, str) else dict(self.start)
        given["on_bad_record"] = self.on_bad_record
        given |= {"avro_schema": self.avro_schema} if self.avro_schema else {}
        return given | ({"connection": dict(self.connection)} if self.connection else {})

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each server."""
        return addresses(self.servers)


def kafka_from_toml(where: str, data: Any) -> KafkaSpec:
    """The inverse of :meth:`KafkaSpec.to_toml`. Raises TempuraError BAD_TOML, BAD_SOURCE, BAD_OPTION."""
    return checked(where, KafkaSpec(**check_section(f"[{where}.kafka]", data, KAFKA, {"servers", "topic"})))


def checked(table: str, kafka: KafkaSpec) -> KafkaSpec:
    """The same, its parts checked. Raises TempuraError BAD_SOURCE for servers and a topic that cannot be, BAD_OPTION for the rest."""
    check_place(f"Table {table}", kafka.servers, kafka.topic)
    given = {"avro_schema": kafka.avro_schema, "connection": kafka.connection}
    check_given(f"Table {table}", KAFKA, given)
    _check_one_of(table, "value_format", kafka.value_format, VALUE_FORMATS)
    _check_one_of(table, "key_format", kafka.key_format, KEY_FORMATS)
    _check_one_of(table, "on_bad_record", kafka.on_bad_record, ON_BAD_RECORD)
    check_start(f"Table {table}", kafka.start)
    if kafka.avro_schema and kafka.value_format != "avro":
        what = f"Table {table} has an Avro schema, and values in {kafka.value_format}."
        raise TempuraError("BAD_OPTION", what, 'Leave it out, or say value_format = "avro".')
    check_connection(f"Table {table}", kafka.connection)
    return kafka


def check_record_options(kafka: KafkaSpec, options: Mapping[str, str]) -> None:
    """Options of Spark's reader for the values. Raises TempuraError BAD_OPTION."""
    other = [name for name in options if kafka.value_format == "avro" or name in NOT_OF_RECORDS]
    if other:
        what = f"Values in {kafka.value_format}, one to a record, have no option {other[0]!r}."
        raise TempuraError("BAD_OPTION", what, "Leave it out.")
    if kafka.value_format != "avro":
        check_format(kafka.value_format, options)


def check_keys_fit(table: str, kafka: KafkaSpec, keys: Sequence[str]) -> None:
    """Whether a record's key can spell the table's. Raises TempuraError BAD_OPTION."""
    if len(keys) > 1 and kafka.key_format == "text":
        what = f"Table {table} has {len(keys)} columns in its key; a record's key as plain text spells one."
        raise TempuraError("BAD_OPTION", what, 'Say key_format="json".', "Say --key-format json.")


def _check_one_of(table: str, name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        what = f"Table {table} has {name} = {value!r}."
        raise TempuraError("BAD_OPTION", what, f"Use one of {', '.join(known)}.")


# --- what a broker says -----------------------------------------------------------------------------------------------


def connection(table: str, kafka: KafkaSpec) -> Connection:
    """What is declared, references looked up. Raises TempuraError NO_SECRET when one leads nowhere."""
    return connected(f"Table {table}", kafka.servers, kafka.connection)


def refusal(table: str, kafka: KafkaSpec, kind: str, said: str) -> TempuraError:
    """The error of what Kafka's client says: the class of its exception, and the message, without secrets."""
    who = f"Table {table}"
    what = f"{who}: Kafka at {kafka.servers}: topic {kafka.topic} cannot be read ({kind}: {said})."
    unreadable = TempuraError("FEED_UNREADABLE", what, "Mend that.")
    return topics.refusal(who, kafka.servers, kafka.topic, kind, said) or unreadable
