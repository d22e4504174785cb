"""Topics of Kafka, whoever reads or writes them: where the broker is, secrets by reference, what a broker says, and its refusals by code.

What is secret is declared by reference, ``env:NAME`` or ``file:/path``, and looked up when the broker is asked: neither a declaration, nor
what is stored of it, nor an error holds it.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tempura.errors import TempuraError

STARTS = ("earliest", "latest")

_CONNECT = 3.0
"""Seconds in which a server has to take a connection."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_CONNECTION = re.compile(r"(?:security\.protocol|client\.dns\.lookup|(?:sasl|ssl)\.[a-z0-9.]+)")
_SECRET = re.compile(r"password|jaas|secret|token|key(\.pem)?$|certificate\.chain$", re.IGNORECASE)
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """What a broker says of a topic: its ``id``, "" where brokers give none; per partition the first offset that is kept and the one after
    the last record that is committed; whether records are ``compacted``, so that only the last of a key is kept."""

    id: str
    partitions: Mapping[int, tuple[int, int]]
    compacted: bool = False


# --- what is declared: ``who`` begins each message -------------------------------------------------------------------


def addresses(servers: str) -> tuple[tuple[str, int], ...]:
    """Host and port of each server."""
    pairs = (server.strip().rpartition(":") for server in servers.split(","))
    return tuple((host.strip("[]"), int(port)) for host, _, port in pairs)


def check_place(who: str, servers: object, topic: object) -> None:
    """Whether there can be such servers, and such a topic. Raises TempuraError BAD_SOURCE."""
    for server in str(servers).split(","):
        found = _SERVER.fullmatch(server.strip())
        if not found or not 0 < int(found[2]) < 65536:
            what = f"{who}: {server.strip()!r} is not the address of a Kafka server."
            raise TempuraError("BAD_SOURCE", what, "Write host:port, several with commas between them.")
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        remedy = "A topic has at most 249 letters, digits, dots, _ and -."
        raise TempuraError("BAD_SOURCE", f"{who}: {topic!r} is not the name of a topic.", remedy)


def check_start(who: str, start: object) -> None:
    """Whether it is a place to begin: earliest, latest, or offsets by partition. Raises TempuraError BAD_OPTION."""
    if isinstance(start, Mapping):
        if start and all(str(p).isdecimal() and type(o) is int and o >= 0 for p, o in start.items()):
            return
    elif start in STARTS:
        return
    remedy = "Say earliest, latest, or an offset for partitions"
    raise TempuraError(
        "BAD_OPTION", f"{who} has start = {start!r}.", f"{remedy}: {{0: 17}}.", f"{remedy}: --start 0=17,1=4"
    )


def check_connection(who: str, settings: Mapping[str, object]) -> None:
    """Whether these are settings of a connection, and no secret is written down. Raises TempuraError BAD_OPTION."""
    for name, value in settings.items():
        if not _CONNECTION.fullmatch(name):
            what = f"{who}: {name!r} is not a setting of a connection."
            raise TempuraError("BAD_OPTION", what, "Known: security.protocol, client.dns.lookup, sasl.… and ssl.…")
        is_reference = isinstance(value, str) and _REFERENCE.fullmatch(value)
        if not isinstance(value, str) or (_SECRET.search(name) and not is_reference):
            # The value is not said: it may be the secret itself.
            what = f"{who}: {name} holds a secret, which must not be written down."
            raise TempuraError("BAD_OPTION", what, "Say where it is: env:NAME, or file:/path of a file that holds it.")


# --- secrets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connection:
    """Settings of Kafka's clients as they are given to them. ``secrets`` must not be shown."""

    settings: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def redacted(self, text: str) -> str:
        """A text without the secrets."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def connected(who: str, servers: str, settings: Mapping[str, str]) -> Connection:
    """What is declared, references looked up. Raises TempuraError NO_SECRET when one leads nowhere."""
    found = {name: _looked_up(who, name, value) for name, value in settings.items()}
    secrets = tuple(filter(None, (value for name, value in found.items() if value != settings[name])))
    return Connection({"bootstrap.servers": servers.replace(" ", ""), **found}, secrets)


def _looked_up(who: str, name: str, value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        return value
    kind, _, place = value.partition(":")
    try:
        return os.environ[place] if kind == "env" else Path(place).read_text(encoding="utf-8").strip()
    except KeyError:
        what = f"{who}: the environment has no variable {place}, which holds {name}."
        raise TempuraError("NO_SECRET", what, "Set it.") from None
    except (OSError, UnicodeDecodeError):
        what = f"{who}: the file {place}, which holds {name}, cannot be read."
        raise TempuraError("NO_SECRET", what, "Put it there, and let this user read it.") from None


# --- what a broker says -----------------------------------------------------------------------------------------------

UNKNOWN = (
    "UnknownTopicOrPartitionException", "InvalidTopicException",
    "UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION",
)  # fmt: skip
"""There is no such topic: Java's exceptions, and librdkafka's codes, as below."""

SILENT = (
    "TimeoutException", "DisconnectException",
    "REQUEST_TIMED_OUT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE",
)  # fmt: skip
"""There is no answer, for the moment at least."""

_DENIED = re.compile(
    r"(?:\w*Authorization|\w*Authentication|SslHandshake|Security|Login|Config|IllegalArgument)\w*Exception"
    r"|\w*AUTHORIZATION_FAILED|\w*AUTHENTICATION\w*|_SSL|UNSUPPORTED_SASL_MECHANISM|ILLEGAL_SASL_STATE|_INVALID_ARG"
)
"""The broker says no, or the client before it: settings that are none."""


def check_reachable(who: str, servers: str) -> None:
    """Kafka's clients would try again and again, and say no more than that time is up. Raises TempuraError BROKER_UNREACHABLE."""
    said = []
    for address in addresses(servers):
        try:
            socket.create_connection(address, _CONNECT).close()
        except OSError as error:
            said.append(f"{address[0]}:{address[1]}: {error.strerror or error}")
        else:
            return
    what = f"{who}: Kafka at {servers} cannot be reached ({'; '.join(said)})."
    raise TempuraError("BROKER_UNREACHABLE", what, "Start the broker, or correct servers.")


def refusal(who: str, servers: str, topic: str, kind: str, said: str) -> TempuraError | None:
    """The error of what Kafka's client says, if it is about the broker or the topic as a whole: Java's exception or librdkafka's code,
    and the message, without secrets."""
    where, reason = f"{who}: Kafka at {servers}", f"({kind}: {said})"
    if kind in UNKNOWN:
        return TempuraError("UNKNOWN_TOPIC", f"{where} has no topic {topic} {reason}.", "Make it, or correct its name.")
    if kind in SILENT:
        remedy = "Look at the broker, or correct servers."
        return TempuraError("BROKER_UNREACHABLE", f"{where} does not answer in time {reason}.", remedy)
    if _DENIED.fullmatch(kind):
        remedy = "Correct connection, or the rights of this user."
        return TempuraError("BROKER_REFUSED", f"{where} does not let topic {topic} be used {reason}.", remedy)
    return None
