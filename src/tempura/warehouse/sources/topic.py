"""A topic of Kafka as a feed: each look reads what came since the last, by offsets, and nothing is consumed on anybody's behalf."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.kafka import TopicOffsets
from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.batches.offsets import Position, Span
from tempura.warehouse.declared.declare import TableSpec
from tempura.warehouse.declared.kafka import KafkaSpec, check_keys_fit, check_record_options
from tempura.warehouse.engine import Engine, TopicRead
from tempura.warehouse.sources.feed import Batch, Widen, anew


@dataclass(frozen=True, slots=True)
class Topic:
    """The feed of a table that a topic fills."""

    engine: Engine
    table: str
    spec: TableSpec

    @property
    def kafka(self) -> KafkaSpec:
        """The topic's declaration."""
        assert self.spec.kafka is not None
        return self.spec.kafka

    def pending(self, arrivals: Sequence[Arrival], schema: StructType, widen: Widen | None = None) -> Iterator[Batch]:
        """All that is new as one arrival, up to the end at this look.

        Raises TempuraError BROKER_UNREACHABLE, BROKER_REFUSED, UNKNOWN_TOPIC, NO_SECRET, NO_PACKAGE, FEED_EXPIRED, FEED_REPLACED,
        NO_KEYS for a compacted topic; BAD_RECORD when records are read.
        """
        span = self._span(arrivals)
        if span is not None:
            refuse = self.spec.on_new_columns == "refuse"
            asked = TopicRead(self.table, self.kafka, schema, self.spec.keys, self.spec.options, refuse, span)
            # The rows of a key are looked for before they are deleted.
            trust = bool(self.spec.keys)
            yield Batch(changes=partial(self.engine.load_topic, asked), position=span.upto.text, trust=trust)

    def waits(self, arrivals: Sequence[Arrival]) -> bool:
        """Whether the topic has something new. Raises as :meth:`pending` does."""
        return self._span(arrivals) is not None

    def _span(self, arrivals: Sequence[Arrival]) -> Span | None:
        found = self.engine.topic(self.table, self.kafka)
        if found.compacted and not self.spec.keys:
            what = f"Table {self.table} has no keys, and topic {self.kafka.topic} is compacted: of records with one key the broker keeps "
            what += "only the last, so what would arrive depends on when it is looked at."
            remedy = "Declare the keys, or set the topic's cleanup.policy to delete."
            raise TempuraError("NO_KEYS", what, remedy)
        return advance(self.table, self.kafka, arrivals[-1].position if arrivals else "", found)


def check_topic(name: str, spec: TableSpec) -> None:
    """Whether what is declared of a table suits a topic. Raises TempuraError BAD_SOURCE, BAD_OPTION."""
    if spec.kafka is None:
        return
    if spec.path is not None or spec.query is not None:
        what = (
            f"Table {name} takes its rows from topic {spec.kafka.topic}, and from {spec.path or f'query {spec.query}'}."
        )
        raise TempuraError("BAD_SOURCE", what, "Give no path and no query with a topic.")
    useless = {"static": spec.static, "settle": spec.settle, "follow_links": spec.follow_links}
    for option in (option for option, given in useless.items() if given):
        raise TempuraError("BAD_OPTION", f"Table {name}, a topic, cannot have {option}.", "Leave it out.")
    check_record_options(spec.kafka, spec.options)
    check_keys_fit(name, spec.kafka, spec.keys)


# --- from one position to the next -----------------------------------------------------------------------------------


def advance(table: str, kafka: KafkaSpec, position: str, found: TopicOffsets) -> Span | None:
    """What is to be read to come from a position, "" at first, to the end; None when there is nothing new.

    Raises TempuraError FEED_EXPIRED when records that have not arrived are no longer kept, FEED_REPLACED when the topic is not the one
    of which the position is, or the partitions declared as start are not its own.
    """
    upto = Position(found.id, {p: end for p, (_, end) in found.partitions.items()})
    since = _known(table, kafka, Position.parse(position), found) if position else _start(table, kafka, found)
    for partition, offset in sorted(since.items()):
        first, end = found.partitions[partition]
        if offset < first:
            what = f"Table {table}: offsets {offset} to {first - 1} of partition {partition} of topic {kafka.topic} have not arrived, "
            what += "and the broker keeps them no longer."
            raise TempuraError("FEED_EXPIRED", what, *anew(table, "Run more often than records are kept"))
        if offset > end:
            raise _replaced(table, kafka, f"partition {partition} ends at offset {end}, before {offset}")
    span = Span(since, upto)
    # To begin at the end is to know where that was.
    begins_here = not position and kafka.start == "latest"
    return span if span.parts or begins_here else None


def check_unchanged(table: str, kafka: KafkaSpec, span: Span, found: TopicOffsets) -> None:
    """Whether what was read of a span was read of that topic. Raises TempuraError as :func:`advance` does."""
    _known(table, kafka, Position(span.upto.id, span.upto.offsets), found)


def _known(table: str, kafka: KafkaSpec, position: Position, found: TopicOffsets) -> dict[int, int]:
    """A position in the partitions that there are now: those that were added are read from their beginning."""
    if position.id != found.id:
        raise _replaced(table, kafka, f"its id is {found.id or 'none'}, and was {position.id or 'none'}")
    gone = sorted(set(position.offsets) - set(found.partitions))
    if gone:
        raise _replaced(table, kafka, f"partition {gone[0]} is not there")
    return dict.fromkeys(found.partitions, 0) | dict(position.offsets)


def _start(table: str, kafka: KafkaSpec, found: TopicOffsets) -> dict[int, int]:
    if kafka.start == "latest":
        return {p: end for p, (_, end) in found.partitions.items()}
    earliest = {p: first for p, (first, _) in found.partitions.items()}
    if isinstance(kafka.start, str):
        return earliest
    named = {int(p): o for p, o in kafka.start.items()}
    for partition, offset in sorted(named.items()):
        if partition not in earliest or offset > found.partitions[partition][1]:
            what = f"Table {table} starts at offset {offset} of partition {partition} of topic {kafka.topic}, which there is not."
            raise TempuraError("BAD_OPTION", what, "Correct start in tempura.toml.")
    return earliest | named


def _replaced(table: str, kafka: KafkaSpec, because: str) -> TempuraError:
    what = f"Table {table}: topic {kafka.topic} is not the one of which rows have arrived: {because}."
    return TempuraError("FEED_REPLACED", what, *anew(table, "Restore it"))
