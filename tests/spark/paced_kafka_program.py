"""A program for a process of its own: a query at paces over a topic that fills up, followed by processes that are killed.

``paced_kafka_program.py FOLDER PACKAGES`` starts a broker, sends records, and starts and kills those who follow the query; it prints
DONE at the end. With a third argument, the name of a query, it is one of these.
"""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from select import select

import tempura as tp
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.warehouse import Warehouse
from tests.spark.broker import broker
from tests.spark.kafka_program import SCHEMA, Cluster, jars, row, session

SQL = """
SELECT a.name, a.n, t.total
FROM spent a JOIN (SELECT name, SUM(n) AS total FROM spent GROUP BY name) t ON a.name = t.name
WHERE a.n * 4 > t.total
"""
ROWS, IDS = 400, 40
PACES = {"spent": 40, "s0": 8}


def follower(folder: Path, packages: str, name: str) -> None:
    """Follow a query to its deadline, with a line per flush."""
    query = tp.open(folder, spark=session(packages)).query(name)
    assert isinstance(query, PacedQuery)
    query.follow(lambda report: print(f"{report.label}: {', '.join(report.paths)}", flush=True), every=0.5)
    print("FOLLOWED", flush=True)


class Topic:
    """What is in a topic, and more of it: records by key, some of which update or delete others."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.dice = cluster, Random(7)
        self.name = cluster.topic("spent", 2)
        self.model: dict[int, tuple[object, ...]] = {}

    def grow(self) -> None:
        for _ in range(5):
            id, n = self.dice.randrange(IDS), self.dice.randrange(1, 100)
            if self.dice.random() < 0.15:
                self.cluster.send(self.name, id % 2, None, key=str(id))
                self.model.pop(id, None)
            else:
                self.cluster.send(self.name, id % 2, row(id, "abcdefgh"[id % 8], n))
                self.model[id] = ("abcdefgh"[id % 8], n)

    @property
    def result(self) -> list[tuple[object, ...]]:
        """The query's, by Python."""
        rows = list(self.model.values())
        totals = {name: sum(int(str(n)) for other, n in rows if other == name) for name, _ in rows}
        return sorted((name, n, totals[str(name)]) for name, n in rows if int(str(n)) * 4 > totals[str(name)])


def followed_until(command: list[str], topic: Topic, wanted: str, kill_after: float | None) -> list[str]:
    """Start a follower, fill the topic, and go on until it has printed a line with a text; kill it so many seconds later. Returns its
    lines."""
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        give_up = time.monotonic() + 240
        for turn in count():
            if select([process.stdout], [], [], 0.25)[0]:
                line = process.stdout.readline()
                assert line or process.poll() in (None, 0), "the follower failed"
                lines += [line.strip()] if line else []
                if wanted in line:
                    break
            if turn % 2 == 0 and kill_after is not None:
                topic.grow()
            assert time.monotonic() < give_up, lines
        if kill_after is not None:
            topic.grow()
            time.sleep(kill_after)
            os.kill(process.pid, signal.SIGKILL)
    return lines


def declared(wh: Warehouse, seconds: float) -> PacedQuery:
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
    query = wh.add_query("q", SQL, schedule=tp.Schedule.paced(until, strategy=PACES))
    assert isinstance(query, PacedQuery)
    return query


def main(folder: Path, packages: str) -> None:
    spark = session(packages)
    with broker(folder / "broker", jars(spark)) as running:
        wh, topic = tp.open(folder / "wh", spark=spark), Topic(Cluster(spark, running.servers))
        served = {"format": "kafka", "servers": running.servers, "topic": topic.name, "schema": SCHEMA}
        wh.add_table("spent", keys=["id"], expect=ROWS, **served)  # type: ignore[arg-type]
        declared(wh, 3600)
        command = [sys.executable, __file__, str(folder / "wh"), packages, "q"]
        for kill_after in (0.9, 0.4):
            lines = followed_until(command, topic, "flush", kill_after)
            print(f"killed after {lines[-1]}", flush=True)
        query = declared(wh, 20)
        topic.grow()
        lines = followed_until(command, topic, "FOLLOWED", None)
        print(*lines, sep="\n", flush=True)
        assert any("(last)" in line for line in lines)
        assert sorted(map(tuple, query.result().collect())) == topic.result
        assert query.verify(), str(query.verify())
        assert len(topic.result) > 1
        print(f"{len(query.history())} flushes, {wh.table('spent').status()['version']} arrivals", flush=True)
    spark.stop()
    print("DONE", flush=True)


if __name__ == "__main__":
    (follower if len(sys.argv) > 3 else main)(Path(sys.argv[1]), *sys.argv[2:])
