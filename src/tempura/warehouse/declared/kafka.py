"""Topics of Kafka as tables are declared to be made of them: where the broker is, how values are spelt, where to begin.

What is secret is declared by reference, ``env:NAME`` or ``file:/path``, and looked up when the broker is asked: neither ``tempura.toml``,
nor the ledger, nor an error holds it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tempura.errors import TempuraError
from tempura.warehouse.declared.text import check_format

VALUE_FORMATS = ("json", "csv", "avro")
KEY_FORMATS = ("text", "json")
STARTS = ("earliest", "latest")
ON_BAD_RECORD = ("fail", "quarantine")
"""What becomes of a record that does not fit: the run is refused, or the record is set aside."""

NOT_OF_RECORDS = (
    "encoding", "lineSep", "multiLine", "header", "comment", "primitivesAsString", "allowComments", "allowUnquotedFieldNames",
    "allowSingleQuotes", "allowNumericLeadingZeros", "allowNonNumericNumbers",
)  # fmt: skip
"""Options of files that do not apply to a record, which is one line of UTF-8 and strict JSON."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_CONNECTION = re.compile(r"(?:security\.protocol|client\.dns\.lookup|(?:sasl|ssl)\.[a-z0-9.]+)")
_SECRET = re.compile(r"password|jaas|secret|token|key$|certificate\.chain$", re.IGNORECASE)
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")


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
        pairs = (server.strip().rpartition(":") for server in self.servers.split(","))
        return tuple((host.strip("[]"), int(port)) for host, _, port in pairs)


def kafka_from_toml(where: str, data: Any) -> KafkaSpec:
    """The inverse of :meth:`KafkaSpec.to_toml`. Raises TempuraError BAD_TOML, BAD_SOURCE, BAD_OPTION."""
    known = {field.name for field in fields(KafkaSpec)}
    if not isinstance(data, Mapping) or not {"servers", "topic"} <= set(data) <= known:
        what = f"{where}.kafka does not say servers and topic, or says something else than {', '.join(sorted(known))}."
        raise TempuraError("BAD_TOML", what, "Correct it.")
    return checked(where, KafkaSpec(**data))


def checked(table: str, kafka: KafkaSpec) -> KafkaSpec:
    """The same, its parts checked. Raises TempuraError BAD_SOURCE for servers and a topic that cannot be, BAD_OPTION for the rest."""
    _check_servers(table, kafka.servers)
    if not isinstance(kafka.topic, str) or not _TOPIC.fullmatch(kafka.topic) or kafka.topic in (".", ".."):
        remedy = "A topic has at most 249 letters, digits, dots, _ and -."
        raise TempuraError("BAD_SOURCE", f"Table {table}: {kafka.topic!r} is not the name of a topic.", remedy)
    _check_one_of(table, "value_format", kafka.value_format, VALUE_FORMATS)
    _check_one_of(table, "key_format", kafka.key_format, KEY_FORMATS)
    _check_one_of(table, "on_bad_record", kafka.on_bad_record, ON_BAD_RECORD)
    _check_start(table, kafka.start)
    if kafka.avro_schema and kafka.value_format != "avro":
        what = f"Table {table} has an Avro schema, and values in {kafka.value_format}."
        raise TempuraError("BAD_OPTION", what, 'Leave it out, or say value_format = "avro".')
    for name, value in kafka.connection.items():
        _check_connection(table, name, value)
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


def _check_servers(table: str, servers: object) -> None:
    for server in str(servers).split(","):
        found = _SERVER.fullmatch(server.strip())
        if not found or not 0 < int(found[2]) < 65536:
            what = f"Table {table}: {server.strip()!r} is not the address of a Kafka server."
            raise TempuraError("BAD_SOURCE", what, "Write host:port, several with commas between them.")


def _check_one_of(table: str, name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        what = f"Table {table} has {name} = {value!r}."
        raise TempuraError("BAD_OPTION", what, f"Use one of {', '.join(known)}.")


def _check_start(table: str, start: object) -> None:
    if isinstance(start, Mapping):
        if start and all(str(p).isdecimal() and type(o) is int and o >= 0 for p, o in start.items()):
            return
    elif start in STARTS:
        return
    what = f"Table {table} has start = {start!r}."
    remedy = "Say earliest, latest, or an offset for partitions"
    raise TempuraError("BAD_OPTION", what, f"{remedy}: {{0: 17}}.", f"{remedy}: --start 0=17,1=4")


def _check_connection(table: str, name: str, value: object) -> None:
    if not _CONNECTION.fullmatch(name):
        what = f"Table {table}: {name!r} is not a setting of a connection."
        raise TempuraError("BAD_OPTION", what, "Known: security.protocol, client.dns.lookup, sasl.… and ssl.…")
    is_reference = isinstance(value, str) and _REFERENCE.fullmatch(value)
    if not isinstance(value, str) or (_SECRET.search(name) and not is_reference):
        # The value is not said: it may be the secret itself.
        what = f"Table {table}: {name} holds a secret, which must not be written down."
        raise TempuraError("BAD_OPTION", what, "Say where it is: env:NAME, or file:/path of a file that holds it.")


# --- secrets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connection:
    """Settings of Kafka's clients as they are given to them. ``secrets`` must not be shown."""

    settings: Mapping[str, str]
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def redacted(self, text: str) -> str:
        """A text without the secrets."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def connection(table: str, kafka: KafkaSpec) -> Connection:
    """What is declared, references looked up. Raises TempuraError NO_SECRET when one leads nowhere."""
    found = {name: _looked_up(table, name, value) for name, value in kafka.connection.items()}
    secrets = tuple(filter(None, (value for name, value in found.items() if value != kafka.connection[name])))
    return Connection({"bootstrap.servers": kafka.servers.replace(" ", ""), **found}, secrets)


def _looked_up(table: str, name: str, value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        return value
    kind, _, place = value.partition(":")
    try:
        return os.environ[place] if kind == "env" else Path(place).read_text(encoding="utf-8").strip()
    except KeyError:
        what = f"Table {table}: the environment has no variable {place}, which holds {name}."
        raise TempuraError("NO_SECRET", what, "Set it.") from None
    except (OSError, UnicodeDecodeError):
        what = f"Table {table}: the file {place}, which holds {name}, cannot be read."
        raise TempuraError("NO_SECRET", what, "Put it there, and let this user read it.") from None


# --- what a broker says -----------------------------------------------------------------------------------------------

_DENIED = re.compile(
    r"(?:\w*Authorization|\w*Authentication|SslHandshake|Security|Login|Config|IllegalArgument)\w*Exception"
)
"""The broker says no, or the client before it: settings that are none."""


def refusal(table: str, kafka: KafkaSpec, kind: str, said: str) -> TempuraError:
    """The error of what Kafka's client says: the class of its exception, and the message, without secrets."""
    where, reason = f"Table {table}: Kafka at {kafka.servers}", f"({kind}: {said})"
    if kind in ("UnknownTopicOrPartitionException", "InvalidTopicException"):
        what = f"{where} has no topic {kafka.topic} {reason}."
        return TempuraError("UNKNOWN_TOPIC", what, "Make it, or correct its name in tempura.toml.")
    if kind in ("TimeoutException", "DisconnectException"):
        remedy = "Look at the broker, or correct servers in tempura.toml."
        return TempuraError("BROKER_UNREACHABLE", f"{where} does not answer in time {reason}.", remedy)
    if _DENIED.fullmatch(kind):
        remedy = "Correct connection in tempura.toml, or let this user describe and read the topic."
        return TempuraError("BROKER_REFUSED", f"{where} does not give topic {kafka.topic} {reason}.", remedy)
    return TempuraError("FEED_UNREADABLE", f"{where}: topic {kafka.topic} cannot be read {reason}.", "Mend that.")
