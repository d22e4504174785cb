"""Continuous joins on workers: as an operator, saved and restored, from folders to files, with a worker killed."""

import os
import pickle
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tempura as tp
from tempura.algebra.bag import SignedBag
from tempura.algebra.evaluate_scalar import evaluate
from tempura.algebra.scalar import Call, Column, Literal, Ref
from tempura.errors import TempuraError
from tempura.region.operators import FailedRow
from tempura.streams.continuous import join, net
from tempura.streams.execution import Batch
from tempura.streams.operator import JoinOperator
from tempura.streams.settings import Settings
from tempura.streams.spec import query_of
from tempura.streams.sql import bare, plan_of
from tempura.streams.types import arrow_type
from tests.unit.stream_histories import Oracle, random_history, random_query

SPEC = {
    "inputs": {
        "orders": {"columns": {"id": "bigint", "region": "string"}},
        "payments": {"columns": {"order_id": "bigint", "amount": "bigint"}},
    },
    "on": ["orders.id = payments.order_id"],
}


def changes_in(batches: Any) -> SignedBag:
    rows = [row for batch in batches if batch is not None for row in batch.to_pylist()]
    return SignedBag([(tuple(list(r.values())[:-1]), 1 if r["_change"] == "insert" else -1) for r in rows])


def sent(batch: Batch, query: Any) -> pa.RecordBatch:
    columns = query.inputs[batch.input].columns
    rows = [
        (*row, kind, batch.time)
        for rows, kind in ((batch.inserts, "insert"), (batch.deletes, "delete"))
        for row in rows
    ]
    schema = pa.schema(
        [*((c.name, arrow_type(c.type)) for c in columns), ("_change", pa.string()), ("_time", pa.float64())]
    )
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.record_batch([pa.array(v, f.type) for v, f in zip(values, schema, strict=True)], schema=schema)


@pytest.mark.parametrize("seed", range(25))
def test_a_join_that_is_saved_and_restored_at_random_gives_the_same_rows_at_the_same_places(seed: int) -> None:
    rng = Random(seed)
    query = random_query(rng)
    plan = plan_of(query)
    whole, again = JoinOperator(plan), JoinOperator(plan, settings=Settings(interval=40, seed=seed))
    oracle, given = Oracle(query), SignedBag()
    for batch in random_history(rng, query, 40):
        if not batch.inserts and not batch.deletes:
            continue  # time goes on with rows only
        oracle.apply(batch)
        data = sent(batch, query)
        found = [b.to_pylist() for b in whole.process(data, batch.input) if b is not None]
        repeated = [b for b in again.process(data, batch.input) if b is not None]
        assert repr([b.to_pylist() for b in repeated]) == repr(found)
        given = given + changes_in(repeated)
        assert given == oracle.result()
        if rng.random() < 0.2:
            saved = again.save()
            again = JoinOperator(plan)
            again.restore(saved)


def orders(*rows: tuple[int, str, str]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch(dict(zip(("id", "region", "_change"), map(list, columns), strict=True)))


def test_the_row_that_cannot_be_deleted_is_named_and_those_before_it_count() -> None:
    operator = JoinOperator(plan_of(query_of(SPEC)))
    list(operator.process(pa.record_batch({"order_id": [1], "amount": [5]}), 1))
    step = operator.process(orders((1, "n", "insert"), (2, "n", "insert"), (3, "n", "delete")), 0)
    found: list[Any] = []
    with pytest.raises(FailedRow) as failed:
        found.extend(iter(step))
    assert failed.value.row == 2
    assert "DELETE_OF_MISSING" in str(failed.value.__cause__)
    with pytest.raises(FailedRow):
        list(operator.process(orders((1, "n", "upsert")), 0))


def write(path: Path, rows: dict[str, list[Any]]) -> None:
    new = path.with_suffix(".new")
    pq.write_table(pa.table(rows), new)
    new.rename(path)


def test_folders_are_joined_into_files_while_a_worker_is_killed(tmp_path: Path) -> None:
    for name in ("orders", "payments", "out"):
        (tmp_path / name).mkdir()
    count = 30
    write(tmp_path / "orders" / "0.parquet", {"id": list(range(1000)), "region": [f"r{n % 7}" for n in range(1000)]})
    write(tmp_path / "payments" / "0.parquet", {"order_id": [0], "amount": [0]})
    sources = {name: tp.streams.folder(tmp_path / name) for name in ("orders", "payments")}
    with tp.streams.join(
        SPEC, sources, tp.streams.parquet(tmp_path / "out"), folder=tmp_path / "job", every=0.3
    ) as job:
        for n in range(1, count):
            write(tmp_path / "payments" / f"{n}.parquet", {"order_id": [n, n, 5000], "amount": [n, n, n]})
            if n == 10:
                until(lambda: rows_in(tmp_path / "out").total() > 1)
                os.kill(job.region.pid("join/0"), signal.SIGKILL)
            if n == 20:
                os.kill(job.region.pid("source-payments/0"), signal.SIGKILL)
            time.sleep(0.03)
        until(lambda: rows_in(tmp_path / "out").total() >= 2 * count - 1)
        status = job.status()
        assert status["restarts"] == 2
        assert status["join"]["pipelines"] == {"orders": ["payments"], "payments": ["orders"]}
        assert job.explain().splitlines()[0] == "orders: payments"
        job.set_memory(4096)
        assert "source-orders" in job.why() or "waits" in job.why()
    expected = Counter({(n, f"r{n % 7}", n, n): 2 for n in range(1, count)}) + Counter({(0, "r0", 0, 0): 1})
    assert rows_in(tmp_path / "out") == expected
    # Started again it goes on, and gives nothing twice.
    with tp.streams.join(SPEC, sources, tp.streams.parquet(tmp_path / "out"), folder=tmp_path / "job", every=0.3):
        write(tmp_path / "payments" / "new.parquet", {"order_id": [999], "amount": [1]})
        until(lambda: rows_in(tmp_path / "out").total() == 2 * count)
    assert rows_in(tmp_path / "out") == expected + Counter({(999, "r5", 999, 1): 1})


def rows_in(folder: Path) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for path in folder.glob("*.parquet"):
        found.update(tuple(row.values())[:-1] for row in pq.read_table(path).to_pylist())
    return found


def until(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def test_what_comes_and_goes_in_one_snapshot_is_no_change() -> None:
    rows = pa.table({"n": [1, 2, 1, 3, 3], "_change": ["insert", "insert", "delete", "delete", "delete"]})
    assert net(rows).to_pylist() == [{"n": n, "_change": c} for n, c in ((2, "insert"), (3, "delete"), (3, "delete"))]


@pytest.mark.parametrize(
    ("query", "columns", "says"),
    [
        ("SELECT 1", {}, "no session is given"),
        (SPEC, {"orders": {"id": [1], "region": ["n"]}}, "input payments has no source"),
        (
            SPEC,
            {"orders": {"id": [1], "region": [1]}, "payments": {}},
            "orders.region is string, and bigint in its source",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(query: Any, columns: Any, says: str) -> None:
    sources = {name: tp.streams.given(list, pa.table(given).schema) for name, given in columns.items()}
    with pytest.raises(TempuraError, match=rf"BAD_STREAM_JOIN.*{says}"):
        join(query, sources, tp.streams.callback(print))


def test_types_that_do_not_travel_are_refused() -> None:
    with pytest.raises(TempuraError, match=r"BAD_STREAM_JOIN.*type map<int,int>"):
        arrow_type("map<int,int>")
    with pytest.raises(TempuraError, match=r"BAD_STREAM_JOIN.*Arrow's type list"):
        tp.streams.given(list, pa.schema([("x", pa.list_(pa.int64()))])).columns  # noqa: B018


def test_given_batches_reach_a_callback() -> None:
    taken: list[pa.RecordBatch] = []
    tables = {"orders": {"id": [1, 2], "region": ["n", "s"]}, "payments": {"order_id": [2, 3], "amount": [5, 6]}}
    sources = {n: tp.streams.given(lambda t=t: pa.table(t).to_batches(), pa.table(t).schema) for n, t in tables.items()}
    with tp.streams.join(SPEC, sources, tp.streams.callback(taken.append)) as job:
        assert job.wait(30)
    assert [row for b in taken for row in b.to_pylist()] == [
        {"id": 2, "region": "s", "order_id": 2, "amount": 5, "_change": "insert"}
    ]


def test_an_expression_travels_without_the_engine() -> None:
    column = Column("o.id", "id", "bigint")
    inner = Call("Add", (Ref(column), Literal(1, "bigint")), "bigint", handle=threading.RLock())
    lifted = Call("GreaterThan", (inner, Literal(2, "bigint")), "boolean", handle=threading.RLock())
    found = pickle.loads(pickle.dumps(bare(lifted)))
    assert found == lifted
    assert evaluate(found, {column: 2}) is True
