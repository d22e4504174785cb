"""A program for a process of its own: a query at paces over topics that fill up all the time, followed by processes that are killed.

``paced_kafka_program.py FOLDER PACKAGES SECONDS [SEED]`` starts a broker, sends records for so many seconds, and starts those who follow
the query, of whom two are killed in the middle of a flush; it compares what is there at the deadline with a model, and prints DONE. With
the word ``follow`` in place of the seconds it is one of those who follow.
"""

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, Queue
from random import Random

import tempura as tp
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.paces.segments import stored_segments
from tempura.warehouse.warehouse import Warehouse
from tests.spark.broker import broker
from tests.spark.kafka_program import SCHEMA, Cluster, jars, row, rows, session

SQL = """
SELECT l.id, l.name, l.n, t.records, t.total
FROM limits l JOIN (SELECT name, COUNT(*) AS records, SUM(n) AS total FROM spent GROUP BY name) t ON l.name = t.name
WHERE t.total > l.n
"""
PACES = {"spent": 30, "limits": 10, "s0": 6}
PER_SECOND, LIMITS, NAMES = 20, 40, "abcdefgh"
SHARE = 0.75
"""Of the records those that are spent; the others are limits."""

AFTER = 3
"""Seconds from the last record to the deadline."""

PATIENCE = 150.0
"""Seconds beyond what is asked for, after which something hangs."""

BEGINS = re.compile(r"(?P<flush>flush \d+(?P<last> \(last\))?): .+")
"""What is told when a flush begins with a segment."""

DONE = "done with "
"""What is told then begins with this."""

Row = tuple[object, ...]


def follow(folder: Path, packages: str) -> None:
    """Follow the query to its deadline: a line for whatever is begun, and one for each flush that is done."""
    query = paced(tp.open(folder, spark=session(packages)))
    query.follow(lambda report: print(f"{DONE}{report.label}: {', '.join(report.paths)}", flush=True), 0.5, say)
    say("FOLLOWED")


def say(text: str) -> None:
    print(text, flush=True)


def paced(wh: Warehouse) -> PacedQuery:
    query = wh.query("q")
    assert isinstance(query, PacedQuery)
    return query


# --- what is sent -----------------------------------------------------------------------------------------------------


class Feed(threading.Thread):
    """Sends records at a steady rate for some time, and does the same to a model. ``spent`` are rows without a key, some of which are
    taken back: each that counts twice, or never, is seen in a sum. ``limits`` come, are changed and go by key."""

    def __init__(self, cluster: Cluster, seconds: int, dice: Random) -> None:
        super().__init__(daemon=True)
        self._cluster, self._seconds, self._dice = cluster, seconds, dice
        self.topics = {name: cluster.topic(name, 2) for name in ("spent", "limits")}
        self.spent: dict[int, Row] = {}
        self.limits: dict[int, Row] = {}
        self.sent, self.last, self.error = 0, datetime.now(UTC), ""

    def run(self) -> None:
        begin = time.monotonic()
        try:
            while (passed := time.monotonic() - begin) < self._seconds:
                if self.sent < passed * PER_SECOND:
                    (self._spend if self._dice.random() < SHARE else self._limit)()
                    self.sent, self.last = self.sent + 1, datetime.now(UTC)
                else:
                    time.sleep(0.02)
        except Exception as error:
            self.error = repr(error)

    def _spend(self) -> None:
        if self.spent and self._dice.random() < 0.1:
            id = self._dice.choice(list(self.spent))
            change, (_, name, n) = {"_change": "delete"}, self.spent.pop(id)
        else:
            id, name, n = self.sent, self._dice.choice(NAMES), self._dice.randrange(-20, 100)
            change, self.spent[id] = {}, (id, name, n)
        # Whatever takes a row back comes after it only in the row's own partition.
        self._cluster.send(self.topics["spent"], id % 2, {"id": id, "name": name, "n": n, **change})

    def _limit(self) -> None:
        id, kind = self._dice.randrange(LIMITS), self._dice.choice(("put", "put", "update", "tombstone"))
        if kind == "tombstone":
            self._cluster.send(self.topics["limits"], id % 2, None, key=str(id))
            self.limits.pop(id, None)
            return
        name, n = self._dice.choice(NAMES), self._dice.randrange(PER_SECOND * self._seconds * 5)
        change = {"_change": "update"} if kind == "update" else {}
        self._cluster.send(self.topics["limits"], id % 2, row(id, name, n, **change))
        self.limits[id] = (id, name, n)

    @property
    def result(self) -> list[Row]:
        """The query's, by Python."""
        spent = {name: [int(str(n)) for _, other, n in self.spent.values() if other == name] for name in NAMES}
        found = ((id, name, int(str(n)), spent[str(name)]) for id, name, n in self.limits.values())
        return sorted((id, name, n, len(of), sum(of)) for id, name, n, of in found if of and sum(of) > n)


# --- who follows ------------------------------------------------------------------------------------------------------


class Follower:
    """A process that follows the query, and the lines that it has told."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._log = process, log
        self._told: Queue[str | None] = Queue()
        self.lines: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.put(line.strip())
        self._told.put(None)

    def next(self, seconds: float) -> str | None:
        """What it tells next; None when it says nothing for so long. Fails when it has ended."""
        try:
            line = self._told.get(timeout=max(0.0, seconds))
        except Empty:
            return None
        assert line is not None, f"it has ended {self._state}"
        self.lines.append(line)
        return line

    def tells(self, until: float) -> Iterator[str]:
        """What it tells. Fails when it does so for too long."""
        while True:
            line = self.next(until - time.monotonic())
            assert line is not None, f"it hangs {self._state}"
            yield line

    @property
    def _state(self) -> str:
        return f"after {self.lines[-5:]}: {self._log.read_text()[-3000:]}"

    def kill(self, moment: float, segments: int, delay: float, until: float) -> str:
        """Kill it in the first flush after a moment that comes to so many segments, so many seconds after it has begun with the last of
        them; in the last flush when it comes to that before. Returns the name of the flush."""
        begun: list[str] = []
        for line in self.tells(until):
            found = BEGINS.fullmatch(line)
            if not found:
                continue
            begun = [*(flush for flush in begun if flush == found["flush"]), found["flush"]]
            if len(begun) == segments and (time.monotonic() > moment or found["last"]):
                time.sleep(delay)
                if self._is_killed_in(found["flush"]):
                    return found["flush"]
        raise AssertionError("it tells no more")

    def _is_killed_in(self, flush: str) -> bool:
        """Kill it if it is not done with a flush."""
        # Once it is stopped it cannot come to an end before it is killed.
        self._process.send_signal(signal.SIGSTOP)
        while self.next(0.2):
            pass
        is_done = any(line.startswith(f"{DONE}{flush}:") for line in self.lines)
        self._process.send_signal(signal.SIGCONT if is_done else signal.SIGKILL)
        return not is_done and self._process.wait() == -signal.SIGKILL


@contextmanager
def following(folder: Path, packages: str) -> Iterator[Follower]:
    """A process that follows the query, and is gone in the end."""
    command = [sys.executable, __file__, str(folder / "wh"), packages, "follow"]
    log = folder / "follower.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            yield Follower(process, log)
        finally:
            process.kill()


# --- what is checked --------------------------------------------------------------------------------------------------


def committed_of(query: PacedQuery, flush: str) -> str:
    """What is committed of a flush that may not be done."""
    segments = {segment.folder.name: segment for segment in stored_segments(query._site, query)}
    known = {f"s{name}": segment for name, segment in segments.items()} | {"result": query}
    steps = ((name, step.flush) for name, segment in known.items() for step in segment.committed().steps)
    return ", ".join(name for name, found in steps if found and found.label == flush) or "nothing"


def exact(wh: Warehouse, feed: Feed, killed: Collection[str]) -> None:
    """Each record has counted once, the result is that of all of them, and no garbage is left. ``killed`` are the flushes that were: on a
    machine so slow that the deadline has passed by then, a last flush is among them, and there is one more."""
    for name, model in (("spent", feed.spent), ("limits", feed.limits)):
        assert rows(wh.table(name)) == sorted(model.values()), name
    query = paced(wh)
    assert sorted(map(tuple, query.result().collect())) == feed.result
    assert len(feed.result) > 1
    assert query.verify(), str(query.verify())
    history = query.history()
    earlier = [f"flush {n}" for n in range(1, len(history))]
    late = {flush.removesuffix(" (last)") for flush in killed if flush.endswith(" (last)")}
    assert [entry.label for entry in history[:-1]] == [
        f"{flush} (last)" if flush in late else flush for flush in earlier
    ]
    assert history[-1].label == f"flush {len(history)} (last)"
    assert query.is_done
    wh.gc()
    assert wh.gc() == ()


def main(folder: Path, packages: str, seconds: int, seed: int) -> None:
    spark, dice = session(packages), Random(seed)
    with broker(folder / "broker", jars(spark)) as running:
        wh, feed = tp.open(folder / "wh", spark=spark), Feed(Cluster(spark, running.servers), seconds, Random(seed))
        expected = {"spent": round(seconds * PER_SECOND * SHARE), "limits": LIMITS}
        for name, topic in feed.topics.items():
            served = {"format": "kafka", "servers": running.servers, "topic": topic, "schema": SCHEMA}
            keys = ["id"] if name == "limits" else []
            wh.add_table(name, keys=keys, expect=expected[name], **served)  # type: ignore[arg-type]
        begin, due = time.monotonic(), datetime.now(UTC) + timedelta(seconds=seconds + AFTER)
        until = begin + seconds + AFTER + PATIENCE
        feed.start()
        wh.add_query("q", SQL, schedule=tp.Schedule.paced(due.isoformat(), strategy=PACES))
        killed: list[str] = []
        for segments, delay, part in ((2, 0.0, 0.3), (1, dice.uniform(0.0, 0.6), 0.65)):
            moment = begin + seconds * part * dice.uniform(0.8, 1.2)
            with following(folder, packages) as follower:
                flush = follower.kill(moment, segments, delay, until)
            when, before, last = time.monotonic() - begin, feed.sent, follower.lines[-1]
            committed = committed_of(paced(wh), flush)
            killed.append(flush)
            print(f"killed after {when:.1f} s in {flush}, at {last!r}; committed of it: {committed}", flush=True)
            time.sleep(dice.uniform(1.0, 3.0))
            assert feed.sent > before or when > seconds, "records have to come while nobody follows"
            print(f"{feed.sent - before} records before the next is started", flush=True)
        with following(folder, packages) as follower:
            assert any(line == "FOLLOWED" for line in follower.tells(until))
        feed.join(PATIENCE)
        assert not feed.is_alive(), "a record is not taken"
        assert not feed.error, feed.error
        assert feed.last < due, "the last record came too late"
        exact(wh, feed, killed)
        arrivals = ", ".join(f"{table.status()['version']} arrivals of {table.name}" for table in wh.tables())
        flushes = len(paced(wh).history())
        print(f"{feed.sent} records, {arrivals}, {flushes} flushes, {len(feed.result)} rows: exact", flush=True)
    spark.stop()
    print("DONE", flush=True)


if __name__ == "__main__":
    at, connectors, *asked = sys.argv[1:]
    if asked == ["follow"]:
        follow(Path(at), connectors)
    else:
        main(Path(at), connectors, int(asked[0]), int(asked[1]) if len(asked) > 1 else 7)
