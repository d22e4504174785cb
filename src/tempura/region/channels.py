"""Both ends of a channel, without what carries it: offsets, credit in rows, what was handed on and what was used up."""

import zlib
from collections import deque
from collections.abc import Sequence

import pyarrow as pa

from tempura.region.messages import End, Item, Mark, Marker, Rows, rows_in


class Outlet:
    """The sender's end. ``offset`` is that of the next item; what was put is *held* until it is released, after the log is stored, and
    handed to the carrier as far as the receiver's *credit* goes: at most ``credit`` offsets are on their way or wait there."""

    def __init__(self, id: str, credit: int, offset: int = 0) -> None:
        self.id = id
        self.credit = credit
        self.offset = offset
        self.sent = offset
        self.used = offset
        self.ended = False
        self._received = offset
        self._held: list[Item] = []
        self._released: deque[Item] = deque()

    def put(self, batch: pa.RecordBatch) -> None:
        """Rows to be sent."""
        self._hold(Rows(self.offset, batch))

    def mark(self, marker: Marker) -> None:
        """A marker to be sent."""
        self._hold(Mark(self.offset, marker))

    def end(self) -> None:
        """Nothing comes after."""
        self._hold(End(self.offset))
        self.ended = True

    def _hold(self, item: Item) -> None:
        self._held.append(item)
        self.offset = item.end

    @property
    def is_held(self) -> bool:
        """Whether something waits to be released."""
        return bool(self._held)

    def release(self) -> None:
        """Let what was put be sent."""
        self._released.extend(self._held)
        self._held.clear()

    @property
    def room(self) -> bool:
        """Whether more may be put: as much as the credit waits at most."""
        return self.offset - self.sent < self.credit

    @property
    def is_blocked(self) -> bool:
        """Whether something is to be sent and may not."""
        return bool(self._released) and self.sent - self.used >= self.credit

    def take(self) -> Item | None:
        """What may be sent now. What the receiver has is left out."""
        while self._released and self._released[0].end <= self._received:
            self.sent = self._released.popleft().end
        if not self._released or self.sent - self.used >= self.credit:
            return None
        item = self._released[0]
        if isinstance(item, Rows) and item.offset < self._received:
            item = item.since(self._received)
        allowed = self.credit - (item.offset - self.used)
        if isinstance(item, Rows) and item.batch.num_rows > allowed:
            self._released[0] = item.since(item.offset + allowed)
            item = item.first(allowed)
        else:
            self._released.popleft()
        self.sent = item.end
        return item

    def acknowledge(self, used: int) -> None:
        """The receiver has used up what is before an offset."""
        self.used = max(self.used, used)

    def greet(self, received: int, used: int) -> None:
        """What a receiver has when a connection is made: nothing of that is sent again. Raises ValueError when it lacks something that
        was sent, which is lost then."""
        if self.sent > received:
            raise ValueError(f"{self.id}: {self.sent} items were sent, and the receiver has {received}")
        self._received = received
        self.used = max(self.used, used)


class Inlet:
    """The receiver's end: ``received`` is the offset up to which everything has come, ``used`` up to which it was processed."""

    def __init__(self, id: str, port: int, used: int = 0, ended: bool = False) -> None:
        self.id = id
        self.port = port
        self.used = used
        self.received = used
        self.ended = ended
        self._items: deque[Item] = deque()

    def accept(self, item: Item) -> None:
        """Take an item that has come. What has come before is dropped: a sender that was restarted sends it again."""
        if item.end <= self.received:
            return
        if item.offset > self.received:
            raise AssertionError(f"{self.id}: an item of offset {item.offset} comes after {self.received}")
        if isinstance(item, Rows):
            item = item.since(self.received)
        self._items.append(item)
        self.received = item.end

    @property
    def head(self) -> Item | None:
        """What is to be processed next."""
        return self._items[0] if self._items else None

    @property
    def waiting(self) -> int:
        """How much has come and was not processed."""
        return rows_in(self._items)

    def pop_rows(self, count: int) -> pa.RecordBatch:
        """Use up rows of the head."""
        head = self._items[0]
        assert isinstance(head, Rows)
        if count == head.batch.num_rows:
            self._items.popleft()
        else:
            self._items[0] = head.since(head.offset + count)
        self.used += count
        return head.batch.slice(0, count)

    def gather(self, count: int) -> pa.RecordBatch | None:
        """Use up so many rows, of several items if need be; None while they have not come. Only a replay asks for that: rows that came
        together may come apart when they are sent again."""
        there, parts = 0, []
        for item in self._items:
            if not isinstance(item, Rows) or there >= count:
                break
            there += item.batch.num_rows
        if there < count:
            return None
        while count:
            head = self._items[0]
            assert isinstance(head, Rows)
            parts.append(self.pop_rows(min(count, head.batch.num_rows)))
            count -= parts[-1].num_rows
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def pop(self) -> Item:
        """Use up a marker or the end."""
        item = self._items.popleft()
        assert not isinstance(item, Rows)
        self.used = item.end
        self.ended = self.ended or isinstance(item, End)
        return item


class Router:
    """Sends rows to the outlets of one link: to all of them, or each to one that its values name."""

    def __init__(self, outlets: Sequence[Outlet], by: Sequence[str]) -> None:
        self._outlets = list(outlets)
        self._by = list(by)

    def put(self, batch: pa.RecordBatch) -> None:
        """Send rows, those of one receiver in their order."""
        if not self._by or len(self._outlets) == 1:
            for outlet in self._outlets:
                outlet.put(batch)
            return
        places = partition(batch, self._by, len(self._outlets))
        for n, outlet in enumerate(self._outlets):
            mine = [i for i, place in enumerate(places) if place == n]
            if mine:
                outlet.put(batch.take(pa.array(mine, pa.int64())))


def partition(batch: pa.RecordBatch, by: Sequence[str], parts: int) -> list[int]:
    """The part that each row belongs to. It depends on the values only, so it is the same in every process."""
    columns = []
    for name in by:
        coded = batch.column(name).dictionary_encode()
        hashes = [zlib.crc32(repr(value).encode()) for value in coded.dictionary.to_pylist()]
        columns.append([0 if i is None else hashes[i] for i in coded.indices.to_pylist()])
    return [sum(31**n * value for n, value in enumerate(row)) % parts for row in zip(*columns, strict=True)]
