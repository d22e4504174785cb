"""Steps on Spark: the same states and outputs as over bags, and what happens to files, caches and sessions on the way."""

import json
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Consolidate, Filter, Join, Negate, Opaque, Project, Rel, Support, Union, Values
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, SortKey, equal
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.errors import Reason, TempuraError
from tempura.execute.contract import Part, StepOutcome, StoredOutput, StoredState
from tempura.execute.draft import Draft, JavaObject
from tempura.execute.files import Files
from tempura.execute.jvm import Jvm
from tempura.execute.local import BagExecutor
from tempura.execute.metrics import Meter
from tempura.execute.relation import Relation
from tempura.execute.render import Renderer
from tempura.execute.spark import SparkExecutor
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import Save, Step
from tempura.tvr.views import Delta, Snapshot
from tests.spark.bags import columns, executor, frame, random_bag, scan, signed_bag
from tests.spark.versions import since

SALES = scan("sales", "int", "string", "decimal(7,2)")
RETURNS = scan("returns", "int", "double")
S0, R0 = Read(SALES, Snapshot(0)), Read(RETURNS, Snapshot(0))
DS, DR = Read(SALES, Delta(0, 1), signed=True), Read(RETURNS, Delta(0, 1))
ON = equal(Ref(SALES.outputs[0]), Ref(RETURNS.outputs[0]))
KEYS = (Output(Column("k", "k", "string"), Ref(SALES.outputs[1])),)
TOTALS = (
    AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint")),
    AggregateOutput(
        Column("t", "t", "decimal(17,2)"),
        AggregateCall("Sum", (Ref(SALES.outputs[2]),), "decimal(17,2)", detail="ansi"),
    ),
)
SALES_0, RETURNS_0, STATE_0 = (
    StateKey(name * 8, kind, 0) for name, kind in (("a", "snapshot"), ("b", "snapshot"), ("c", "state"))
)
SALES_1, STATE_1 = StateKey("a" * 8, "snapshot", 1), StateKey("c" * 8, "state", 1)

STATE_AT_0 = Partial(Join(S0, R0, "inner", ON), KEYS, TOTALS)
LOADED_SALES, LOADED_RETURNS = Load(SALES_0, SALES.outputs), Load(RETURNS_0, RETURNS.outputs)
LOADED_STATE = Load(STATE_0, STATE_AT_0.columns)
NEW_SALES = Consolidate(Union((LOADED_SALES, DS)))
DELTA = Union((Join(DS, LOADED_RETURNS, "inner", ON), Join(NEW_SALES, DR, "inner", ON)))
NEW_STATE = MergeStates(LOADED_STATE, Partial(DELTA, KEYS, TOTALS), KEYS, TOTALS)

FIRST = Step(0, (Save(SALES_0, S0, (0,)), Save(RETURNS_0, R0, (0,)), Save(STATE_0, STATE_AT_0, (0,))), None, 0)
SECOND = Step(1, (Save(STATE_1, NEW_STATE, (0,)), Save(SALES_1, NEW_SALES, (0,))), Finalize(NEW_STATE, KEYS, TOTALS), 0)


def tables(seed: int) -> dict[Read, SignedBag]:
    """Arrivals such that nothing is deleted that is not there."""
    rng = random.Random(seed)
    first, later = (random_bag(rng, SALES.outputs, n, signed=False) for n in (40, 10))
    deleted = SignedBag((row, -1) for row, _ in list(first.items())[:12])
    returns = [random_bag(rng, RETURNS.outputs, n, signed=False) for n in (10, 5)]
    return {S0: first, DS: later + deleted, R0: returns[0], DR: returns[1]}


@dataclass
class Store:
    """Runs steps in one folder each and remembers their states, as a warehouse does."""

    spark: SparkSession
    folder: Path
    arrivals: dict[Read, SignedBag]

    def __post_init__(self) -> None:
        self.states: dict[StateKey, StoredState] = {}
        self.messages: list[str] = []
        self.executor = SparkExecutor(self.spark, self.rows, self.states.__getitem__, self.messages.append, buckets=4)

    def rows(self, leaf: Read) -> Draft:
        types = [column.type for column in leaf.columns]
        return Draft.of(frame(self.spark, self.arrivals[leaf], leaf.scan.fields, types, leaf.signed))

    def run(self, step: Step) -> StepOutcome:
        outcome = self.executor.run(step, self.folder / f"step {step.time}")
        self.states |= outcome.states
        return outcome

    def bag(self, key: StateKey) -> SignedBag:
        width = len(self.states[key].types)
        return signed_bag(self.executor.state(self.states[key], columns("c", *self.states[key].types)), width)


@pytest.fixture(scope="module")
def two_steps(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Store, BagExecutor, list[StepOutcome]]:
    """Two steps on Spark, in a folder with an awkward name, and an executor over bags that ran the same steps."""
    arrivals = tables(1)
    store = Store(spark, tmp_path_factory.mktemp("ware[house] {x}%20*"), arrivals)
    local = BagExecutor(arrivals.__getitem__)
    outcomes = [store.run(step) for step in (FIRST, SECOND)]
    local.run(FIRST)
    return store, local, outcomes


Run = tuple[Store, BagExecutor, list[StepOutcome]]


def test_two_steps_equal_the_bag_executor(two_steps: Run) -> None:
    store, local, outcomes = two_steps
    expected = local.run(SECOND)
    for key, bag in local.states.items():
        assert store.bag(key) == bag, str(key)
    output = outcomes[1].output
    assert outcomes[0].output is None
    assert output is not None
    assert expected.output is not None
    rows = store.executor.result(output, SECOND.emit.columns if SECOND.emit else (), ("k", "n", "t"))
    assert signed_bag(rows, 3) == expected.output
    assert len(expected.output), "the case is trivial"


def test_an_outcome_says_what_was_written(two_steps: Run) -> None:
    store, local, outcomes = two_steps
    for key, stored in outcomes[1].states.items():
        assert stored.rows == len(local.states[key]) or not stored.weighted
        assert outcomes[1].rows[str(key)] == stored.rows
        assert stored.bytes == sum(f.stat().st_size for f in Path(stored.parts[0].path).glob("part-*"))
        assert StoredState.from_json(json.loads(json.dumps(stored.to_json()))) == stored
        assert Path(stored.parts[0].path).is_relative_to(store.folder / "step 1" / "states")
    output = outcomes[1].output
    assert output is not None
    assert output.paths == (str(store.folder / "step 1" / "output"),)
    assert StoredOutput.from_json(json.loads(json.dumps(output.to_json()))) == output
    assert outcomes[1].cpu_seconds > 0
    assert outcomes[1].jobs > 0
    assert outcomes[1].shuffle_bytes > 0
    assert len(store.messages) == 6


def test_plain_data_stays_without_weights(two_steps: Run) -> None:
    _, _, outcomes = two_steps
    assert [s.weighted for s in outcomes[0].states.values()] == [False, False, False]
    assert outcomes[1].states[SALES_1].weighted
    assert not outcomes[1].states[STATE_1].weighted


def test_the_session_stays_as_it_was(two_steps: Run, spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.optimizer.plannedWrite.enabled") == "true"


def test_every_row_is_in_the_bucket_of_its_key(two_steps: Run, spark: SparkSession) -> None:
    store, _, outcomes = two_steps
    for key, stored in (*outcomes[0].states.items(), *outcomes[1].states.items()):
        assert (stored.bucket, stored.buckets) == ((0,), 4), str(key)
        named = store.executor.state(stored, columns("c", *stored.types))
        misplaced = named.filter(
            fn.expr("int(regexp_extract(input_file_name(), '_(\\\\d+)[.]c', 1)) <> pmod(hash(c0), 4)")
        )
        assert misplaced.count() == 0, str(key)


def exchanges(rows: DataFrame) -> int:
    rows.collect()
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert "isFinalPlan=true" in plan
    return str(plan.split("Initial Plan")[0]).count("Exchange hashpartitioning")


def test_buckets_save_the_exchange(two_steps: Run, spark: SparkSession) -> None:
    store, _, _ = two_steps
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    shuffled = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    try:
        run = SparkExecutor(spark, store.rows, store.states.__getitem__)
        by_key = (Output(Column("g", "g", "int"), Ref(SALES.outputs[0])),)
        assert exchanges(run.dataframe(Join(LOADED_SALES, LOADED_RETURNS, "inner", ON))) == 0
        assert exchanges(run.dataframe(Join(LOADED_SALES, LOADED_RETURNS, "left", ON))) == 0
        assert exchanges(run.dataframe(Partial(LOADED_SALES, by_key, TOTALS))) == 0
        assert exchanges(run.dataframe(Join(LOADED_SALES, DR, "inner", ON))) == 1, "only the delta is shuffled"
        merged = run.dataframe(MergeStates(LOADED_STATE, Partial(DS, KEYS, TOTALS), KEYS, TOTALS))
        # Spark 4.0 does not see that a union of relations which are partitioned alike is so, too.
        assert exchanges(merged) == (1 if since(4, 1) else 2)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.set("spark.sql.shuffle.partitions", str(shuffled))


@pytest.mark.parametrize("broadcast", ["-1", "10485760"])
def test_joins_and_aggregations_over_buckets_are_right(two_steps: Run, spark: SparkSession, broadcast: str) -> None:
    """NULL keys, and buckets without a file."""
    store, local, _ = two_steps
    only_two = StateKey("d" * 8, "snapshot", 5)
    two = Filter(LOADED_SALES, equal(Ref(SALES.outputs[0]), Literal(2, "int")))
    step = Step(5, (Save(only_two, two, (0,)),), None, 0)
    stored = store.executor.run(step, store.folder / f"two {broadcast}").states[only_two]
    assert len(list(Path(stored.parts[0].path).glob("part-*"))) < 4
    states = {**store.states, only_two: stored}
    local.run(step)
    loaded = Load(only_two, SALES.outputs)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
    try:
        run = SparkExecutor(spark, store.rows, states.__getitem__, buckets=4)
        kinds = ("inner", "left", "full", "semi", "anti")
        both = [Join(side, LOADED_RETURNS, kind, ON) for side in (LOADED_SALES, loaded) for kind in kinds]  # type: ignore[arg-type]
        for rel in (*both, Partial(loaded, KEYS, TOTALS), Partial(Union((loaded, LOADED_SALES)), KEYS, TOTALS)):
            assert signed_bag(run.dataframe(rel), len(rel.columns)) == local.bag(rel), str(rel)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_an_aggregation_saved_by_its_key_keeps_all_buckets(spark: SparkSession, tmp_path: Path) -> None:
    """Adaptive execution must not merge the buckets, also where the aggregation has already shuffled by the key."""
    source = scan("t", "bigint")
    key = StateKey("e" * 8, "state", 0)
    counted = Partial(
        Read(source, Snapshot(0)), (Output(Column("k", "k", "bigint"), Ref(source.outputs[0])),), TOTALS[:1]
    )
    rows = Draft.of(spark.range(500).selectExpr(f"id % 97 AS `{source.fields[0]}`"))
    run = SparkExecutor(spark, lambda read: rows, lambda key: pytest.fail(str(key)), buckets=2)
    stored = run.run(Step(0, (Save(key, counted, (0,)),), None, 0), tmp_path).states[key]
    state = run.state(stored, columns("c", *stored.types))
    placed = state.selectExpr(
        "int(regexp_extract(input_file_name(), '_(\\\\d+)[.]c', 1)) AS file", "pmod(hash(c0), 2) AS bucket"
    )
    assert sorted(map(tuple, placed.distinct().collect())) == [(0, 0), (1, 1)]
    assert stored.rows == 97


@pytest.mark.parametrize("type", ["double", "array<int>", "string collate UTF8_LCASE"])
def test_keys_that_spark_groups_otherwise_than_it_hashes_are_not_bucketed(
    spark: SparkSession, tmp_path: Path, type: str
) -> None:
    key = StateKey("f" * 8, "snapshot", 0)
    (column,) = columns("v", type)
    step = Step(0, (Save(key, Project(Values((), ((),)), (Output(column, Literal(None, type)),)), (0,)),), None, 0)
    assert executor(spark, {}).run(step, tmp_path).states[key].bucket == ()


# --- what is computed once ---------------------------------------------------------------------------------------------

UNIQUE = scan("unique", "string")
ONCE = Support(Read(UNIQUE, Snapshot(0)))
A, B = StateKey("1" * 8, "snapshot", 0), StateKey("2" * 8, "snapshot", 0)


def unique(spark: SparkSession) -> Draft:
    """Rows that differ each time they are computed."""
    name = UNIQUE.fields[0]
    return Draft.of(spark.range(3).selectExpr(f"reflect('java.util.UUID', 'randomUUID') AS `{name}`"))


def persisted(spark: SparkSession) -> int:
    """How many cached results Spark holds."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def not_null(rel: Rel) -> Filter:
    return Filter(rel, Call("IsNotNull", (Ref(rel.columns[0]),), "boolean"))


@pytest.mark.parametrize(
    "step",
    [
        Step(
            0,
            (
                Save(A, not_null(ONCE)),
                Save(B, Project(ONCE, (Output(Column("x", "x", "string"), Ref(UNIQUE.outputs[0])),))),
            ),
            None,
            0,
        ),
        Step(0, (Save(A, not_null(not_null(ONCE))), Save(B, ONCE)), None, 0),
        Step(0, (Save(A, ONCE), Save(B, Load(A, UNIQUE.outputs))), None, 0),
    ],
    ids=["persisted", "read back", "carried"],
)
def test_what_two_sinks_share_is_computed_once(spark: SparkSession, tmp_path: Path, step: Step) -> None:
    run = SparkExecutor(spark, lambda read: unique(spark), lambda key: pytest.fail(str(key)))
    before = persisted(spark)
    states = run.run(step, tmp_path).states
    assert persisted(spark) == before
    first, second = (signed_bag(run.state(states[key], UNIQUE.outputs), 1) for key in (A, B))
    assert first == second
    assert len(first) == 3


def test_what_one_sink_reads_twice_is_computed_once(spark: SparkSession, tmp_path: Path) -> None:
    run = SparkExecutor(spark, lambda read: unique(spark), lambda key: pytest.fail(str(key)))
    nothing = Consolidate(Union((not_null(ONCE), Negate(ONCE))))
    assert len(signed_bag(run.dataframe(nothing), 1)) == 6, (
        "computed twice it is something: else the test shows nothing"
    )
    outcome = run.run(Step(0, (), nothing, 0), tmp_path)
    assert outcome.output is not None
    assert outcome.output.rows == 0


def meeting(here: Path, there: Path) -> Callable[[int], bool]:
    """What a task does that waits for one of another job: whether that comes. It is done where nothing of this module is known."""

    def has_come(_: int) -> bool:
        import time

        here.touch()
        for _ in range(600):
            if there.exists():
                return True
            time.sleep(0.1)
        return False

    return has_come


def test_jobs_of_sinks_that_need_nothing_of_each_other_run_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Each waits for the other in a task: one after the other, the first would wait in vain."""
    reads = [Read(scan(name, "boolean"), Snapshot(0)) for name in ("saved", "emitted")]
    places = [tmp_path / read.scan.table for read in reads]

    def rows(leaf: Read) -> Draft:
        i = reads.index(leaf)
        met = fn.udf(meeting(places[i], places[1 - i]), "boolean", useArrow=False)
        return Draft.of(spark.range(1, numPartitions=1).select(met("id").alias(leaf.scan.fields[0])))

    run = SparkExecutor(spark, rows, lambda key: pytest.fail(str(key)))
    outcome = run.run(Step(0, (Save(A, reads[0]),), reads[1], 0), tmp_path / "step")
    assert outcome.output is not None
    written = (run.state(outcome.states[A], reads[0].columns), run.result(outcome.output, reads[1].columns, ("met",)))
    assert [[tuple(row) for row in found.collect()] for found in written] == [[(True,)], [(True,)]]
    assert outcome.jobs == 2


@pytest.mark.parametrize("depth", [1, 4])
def test_what_is_shared_is_a_leaf_to_its_readers(spark: SparkSession, depth: int) -> None:
    """Each level has two readers of the one below: as a tree, the plan would double with each of them."""
    levels: list[Rel] = [ONCE]
    for _ in range(depth):
        levels.append(Support(Union((not_null(levels[-1]), Support(levels[-1])))))
    rows = Relation(unique(spark).renamed(*(column.id for column in UNIQUE.outputs)), weighted=False)
    renderer = Renderer(spark, lambda leaf: rows, frozenset(levels[:-1]))
    try:
        last = renderer.relation(levels[-1]).draft.dataframe()
        assert last._jdf.queryExecution().analyzed().collectLeaves().size() == 2
        assert last.count() == 3
    finally:
        renderer.release()


def test_what_is_shared_and_stands_side_by_side_is_computed_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Support(ONCE), Support(not_null(ONCE))
    above = Support(Union((one, other)))
    rows = Relation(unique(spark).renamed(*(column.id for column in UNIQUE.outputs)), weighted=False)
    renderer = Renderer(spark, lambda leaf: rows, frozenset({one, other, above}))
    both, alone = threading.Barrier(2), list[bool]()
    leaf = Jvm.leaf

    def waiting(jvm: Jvm, frame: DataFrame) -> DataFrame:
        with suppress(threading.BrokenBarrierError):
            # The first two wait for each other; the third comes when these have ended.
            both.wait(timeout=60 if len(alone) < 2 else 0)
        alone.append(both.broken)
        return leaf(jvm, frame)

    monkeypatch.setattr(Jvm, "leaf", waiting)
    try:
        assert renderer.relation(Union((above, one))).draft.dataframe().count() == 9
    finally:
        renderer.release()
    assert alone == [False, False, True]


def test_the_output_is_taken_from_the_state_that_holds_it(spark: SparkSession, tmp_path: Path) -> None:
    run = SparkExecutor(spark, lambda read: unique(spark), lambda key: pytest.fail(str(key)))
    outcome = run.run(Step(0, (Save(A, ONCE),), Consolidate(Union((ONCE, not_null(ONCE)))), 0), tmp_path)
    assert outcome.output is not None
    assert outcome.output.rows == 6
    assert run.result(outcome.output, UNIQUE.outputs, ("u",)).distinct().count() == 3


def test_a_carried_state_has_the_same_files_and_buckets(spark: SparkSession, tmp_path: Path) -> None:
    run = SparkExecutor(spark, lambda read: unique(spark), lambda key: pytest.fail(str(key)), buckets=2)
    step = Step(0, (Save(A, ONCE, (0,)), Save(B, Load(A, UNIQUE.outputs), (0,))), None, 0)
    states = run.run(step, tmp_path).states
    assert states[B] == states[A]
    assert states[B].bucket == (0,)


def test_states_that_need_one_another_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    step = Step(0, (Save(A, Load(B, UNIQUE.outputs)), Save(B, Load(A, UNIQUE.outputs))), None, 0)
    with pytest.raises(TempuraError) as refusal:
        executor(spark, {}).run(step, tmp_path)
    assert refusal.value.code == "CYCLIC_STEP"


# --- results and odd shapes -------------------------------------------------------------------------------------------


def test_a_result_is_ordered_named_and_cut_as_the_query_says(spark: SparkSession, tmp_path: Path) -> None:
    outputs = columns("v", "int", "string", "double")
    emit = Consolidate(
        Union(
            (
                Values(outputs, ((1, "a", 2.0), (2, "b", 1.0))),
                Negate(Values(outputs, ((1, "a", 2.0),))),
                Values(outputs, ((3, "a", None),) * 2),
            )
        )
    )
    run = executor(spark, {})
    output = run.run(Step(0, (), emit, 0), tmp_path).output
    assert output is not None
    assert output.rows == 3
    order = (SortKey(Ref(outputs[2]), ascending=False, nulls_first=True),)
    rows = run.result(output, outputs, ("x", "x"), order)
    assert rows.columns == ["x", "x"]
    assert [tuple(row) for row in rows.collect()] == [(3, "a"), (3, "a"), (2, "b")]


def test_relations_without_columns_and_without_types_can_be_kept(spark: SparkSession, tmp_path: Path) -> None:
    """COUNT(*) reads no column, and a bare NULL has no type: Parquet knows neither."""
    void = columns("v", "int", "void")
    nulls = Project(Values(void[:1], ((1,),)), (Output(void[0], Ref(void[0])), Output(void[1], Literal(None, "void"))))
    step = Step(0, (Save(A, Values((), ((), (), ()))), Save(B, nulls)), nulls, 0)
    run = executor(spark, {})
    states = run.run(step, tmp_path).states
    assert signed_bag(run.state(states[A], ()), 0) == SignedBag([((), 3)])
    loaded = run.state(states[B], void)
    assert signed_bag(loaded, 2) == SignedBag.of([(1, None)])
    assert loaded.dtypes[1][1] == "void"


class SelfJoin:
    """The handle of an opaque query: pairs of rows with equal first columns, counted by the second."""

    def answer(self, session: SparkSession, rows: Sequence[JavaObject]) -> JavaObject:
        given = (Draft(session, plan).dataframe() for plan in rows)
        left, right = (frame.toDF("key", name, "price") for frame, name in zip(given, ("x", "y"), strict=True))
        return Draft.of(left.join(right, "key").groupBy("x").count()).plan


def test_an_opaque_query_is_run_over_its_inputs(spark: SparkSession) -> None:
    inputs = (Consolidate(Read(SALES, Snapshot(0), signed=True)),) * 2
    query = Opaque(inputs, columns("o", "string", "bigint"), "key", Reason("WINDOW", "a test"), SelfJoin())
    bag = SignedBag([((1, "a", None), 2), ((2, "b", None), 1)])
    computed = executor(spark, {"sales": bag}).dataframe(query)
    assert signed_bag(computed, 2) == SignedBag.of([("a", 4), ("b", 1)])


def test_an_opaque_query_without_a_handle_is_refused(spark: SparkSession) -> None:
    query = Opaque((), columns("o", "string"), "key", Reason("WINDOW", "a test"))
    with pytest.raises(TempuraError) as refusal:
        executor(spark, {}).dataframe(query)
    assert refusal.value.code == "NOT_EXECUTABLE"


def test_a_lost_state_is_named(spark: SparkSession, tmp_path: Path) -> None:
    lost = StoredState(("int",), (), 0, '{"type":"struct","fields":[]}', (Part(str(tmp_path / "gone"), 0, 0),))
    with pytest.raises(TempuraError) as refusal:
        executor(spark, {}, {A: lost}).dataframe(Load(A, columns("c", "int")))
    assert refusal.value.code == "STATE_MISSING"


def test_a_meter_sees_its_own_jobs_only(spark: SparkSession) -> None:
    with Meter(spark.sparkContext) as outer:
        spark.range(10).count()
        with Meter(spark.sparkContext) as inner:
            spark.range(0, 300_000, 1, 3).selectExpr("sum(hash(id))").collect()
    spark.range(10).count()
    assert 1 <= inner.usage.jobs < outer.usage.jobs
    assert 0 < inner.usage.cpu_seconds <= outer.usage.cpu_seconds
    assert inner.usage.tasks == 4
    assert inner.usage.shuffle_bytes > 0
    assert 0 < inner.usage.wall_seconds <= outer.usage.wall_seconds


# --- several at once ----------------------------------------------------------------------------------------------------


class TestAtOnce:
    @pytest.fixture
    def meeting(self, monkeypatch: pytest.MonkeyPatch) -> threading.Barrier:
        """Two writes at the same time: each waits for the other."""
        barrier, write = threading.Barrier(2), Files._write

        def meet(files: Files, rows: Relation, columns: Sequence[Column], folder: Path) -> str:
            barrier.wait(60)
            return write(files, rows, columns, folder)

        monkeypatch.setattr(Files, "_write", meet)
        return barrier

    def test_states_that_do_not_read_each_other_are_written_at_once(
        self, spark: SparkSession, tmp_path: Path, meeting: threading.Barrier
    ) -> None:
        arrivals = tables(2)
        store = Store(spark, tmp_path, arrivals)
        with Meter(spark.sparkContext) as meter:
            outcome = store.run(Step(0, FIRST.saves[:2], None, 0))
        assert outcome.usage.jobs == meter.usage.jobs >= 2
        assert outcome.usage.output_bytes > 0
        assert {key: store.bag(key) for key in (SALES_0, RETURNS_0)} == {
            SALES_0: arrivals[S0],
            RETURNS_0: arrivals[R0],
        }

    def test_an_error_of_one_ends_the_other(
        self, spark: SparkSession, tmp_path: Path, meeting: threading.Barrier
    ) -> None:
        """The other would go on for days. A step after it runs as ever."""
        lasting, failing = (Read(scan(name, "bigint"), Snapshot(0)) for name in ("lasting", "failing"))
        rows = {
            lasting: spark.range(0, 10**15, 1, 1).where("id < 0"),  # of the two slots the other keeps one
            failing: spark.range(1).where("raise_error('this one fails') IS NULL"),
        }
        run = SparkExecutor(spark, lambda leaf: Draft.of(rows[leaf]), lambda key: pytest.fail(str(key)))
        with pytest.raises(Exception, match="this one fails"):
            run.run(Step(0, (Save(A, lasting), Save(B, failing)), None, 0), tmp_path / "first")
        assert not list(spark.sparkContext.statusTracker().getActiveJobsIds())
        rows = dict.fromkeys((lasting, failing), spark.range(3))
        states = run.run(Step(0, (Save(A, lasting), Save(B, failing)), None, 0), tmp_path / "second").states
        assert [states[key].rows for key in (A, B)] == [3, 3]
