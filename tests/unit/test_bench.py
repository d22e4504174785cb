"""The benchmarks' own machinery: arrivals hold each row once, and the record of a sweep survives being stopped."""

import json
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tempura as tp
from tempura.bench.arrivals import CHANGE, FIRST, Cut, cut_facts
from tempura.bench.exactness import Sweep, knocked_out
from tempura.bench.lake import Lake
from tempura.bench.record import Record, Row, summarised
from tempura.bench.second import differences
from tempura.bench.suites import SUITES, chosen
from tempura.bench.trial import failure_of
from tempura.data.tpcds import Dataset, generate, query_texts
from tempura.errors import TempuraError
from tempura.rules.methods import TEMPURA


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return generate(0.001, tmp_path_factory.mktemp("cache"), "tpch")


def bag(files: tuple[Path, ...]) -> Counter[tuple[object, ...]]:
    """The rows after all arrivals; no row may leave before it came."""
    found: Counter[tuple[object, ...]] = Counter()
    for file in files:
        for row in pq.read_table(file).to_pylist():
            change = row.pop(CHANGE, "insert")
            found[tuple(row.values())] += 1 if change == "insert" else -1
        assert min(found.values(), default=0) >= 0
    return +found


def rows(dataset: Dataset, table: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in pq.read_table(dataset.file(table)).to_pylist())


@pytest.mark.parametrize("split", ["hash", "together", "date"])
def test_appended_rows_arrive_once_each(dataset: Dataset, tmp_path: Path, split: str) -> None:
    found = cut_facts(dataset, SUITES["tpch"], Cut.of("append-big", split, 3, 0.0), tmp_path)
    assert set(found) == {"lineitem", "orders", "partsupp"}
    for table, waiting in found.items():
        assert len(waiting.arrivals) == 3
        assert bag(waiting.arrivals) == rows(dataset, table)


def test_rows_that_come_together_keep_the_references_and_others_do_not(dataset: Dataset, tmp_path: Path) -> None:
    suite, lost = SUITES["tpch"], dict[str, set[str]]()
    for split in ("together", "hash"):
        waiting = cut_facts(dataset, suite, Cut.of("append-small", split, 3, 0.0), tmp_path / split)
        present: dict[str, tuple[Path, ...]] = {name: (dataset.file(name),) for name in dataset.tables}
        lost[split] = set()
        for i in range(3):
            present |= {name: found.present[i] for name, found in waiting.items()}
            for table, references in suite.references.items():
                for column, partner in references.items():
                    other, key = partner.split(".")
                    assert suite.keys[other] == (key,)
                    if not values(present[table], column) <= values(present[other], key):
                        lost[split].add(f"{table}.{column}")
    assert lost == {"together": set(), "hash": {"lineitem.l_orderkey"}}


def values(files: tuple[Path, ...], column: str) -> set[object]:
    return {value for file in files for value in pq.read_table(file, columns=[column])[column].to_pylist()}


def test_duplicates_repeat_some_rows(dataset: Dataset, tmp_path: Path) -> None:
    files = cut_facts(dataset, SUITES["tpch"], Cut.of("append-big", "hash", 2, 0.1), tmp_path)["lineitem"].arrivals
    all_rows = rows(dataset, "lineitem")
    again = bag(files) - all_rows
    assert set(again) <= set(all_rows)
    assert 0.07 < again.total() / all_rows.total() < 0.13


@pytest.mark.parametrize("pattern", list(FIRST))
def test_patterns_delete_from_their_tables_only(dataset: Dataset, tmp_path: Path, pattern: str) -> None:
    suite = SUITES["tpch"]
    found = cut_facts(dataset, suite, Cut.of(pattern, "hash", 3, 0.0), tmp_path)
    for table, waiting in found.items():
        left = rows(dataset, table) - bag(waiting.arrivals)
        earlier = sum(pq.read_metadata(file).num_rows for file in waiting.arrivals[:-1])
        expected = 0.05 if table in suite.deletable(pattern) else 0
        assert abs(left.total() / earlier - expected) < 0.02


@pytest.mark.parametrize("pattern", ["append-big", "retract-both"])
def test_the_rows_that_are_present_are_those_that_came_and_did_not_leave(
    dataset: Dataset, tmp_path: Path, pattern: str
) -> None:
    found = cut_facts(dataset, SUITES["tpch"], Cut.of(pattern, "hash", 3, 0.1), tmp_path)
    for waiting in found.values():
        for i, present in enumerate(waiting.present):
            assert bag(present) == bag(waiting.arrivals[: i + 1])


def test_the_first_arrival_is_as_large_as_the_pattern_says() -> None:
    assert Cut.of("append-small", "hash", 3, 0).shares == pytest.approx((4 / 6, 5 / 6))
    assert Cut.of("retract-both", "hash", 2, 0).shares == pytest.approx((2 / 3,))
    assert Cut.of("append-big", "date", 1, 0).shares == ()


def test_an_order_and_its_lines_may_arrive_apart(dataset: Dataset, tmp_path: Path) -> None:
    found = cut_facts(dataset, SUITES["tpch"], Cut.of("append-big", "hash", 2, 0.0), tmp_path)
    first = {t: set(pq.read_table(w.arrivals[0]).column(0).to_pylist()) for t, w in found.items()}
    second = {t: set(pq.read_table(w.arrivals[1]).column(0).to_pylist()) for t, w in found.items()}
    assert not first["lineitem"] & second["lineitem"]
    assert first["lineitem"] & second["orders"]


def test_queries_are_chosen_by_name() -> None:
    texts = query_texts("tpch")
    assert list(texts) == [f"q{i}" for i in range(1, 23)]
    assert list(chosen("q3,q1", texts)) == ["q1", "q3"]
    with pytest.raises(TempuraError, match="UNKNOWN_QUERY"):
        chosen("q1,q23", texts)


META = Sweep("tpch", 0.01, ("append-big",)).meta()


def row(query: str, **known: Any) -> dict[str, Any]:
    fixed = {"query": query, "pattern": "append-big", "scenario": "ivm", "time": "t1", "equal": True, "error": None}
    return fixed | {"nontrivial": True, "fallbacks": [], "overhead_s": 0.1, "cpu_s": 1.0, "wall_s": 2.0} | known


def test_a_record_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    Record(file, META).add([row("q1")])
    with pytest.raises(TempuraError, match="FILE_EXISTS"):
        Record(file, META)
    again = Record(file, META, resume=True)
    assert again.has("q1", "append-big", "ivm")
    assert not again.has("q1", "retract-both", "ivm")
    again.add([row("q2", equal=False)])
    content = json.loads(file.read_text())
    assert [r["query"] for r in content["runs"]] == ["q1", "q2"]
    assert content["summary"]["wrong"] == ["q2"]


@pytest.mark.parametrize("before", [{"equal": False}, {"equal": None, "error": "NO_PLAN"}])
def test_what_is_not_right_is_run_again_when_a_record_is_continued(tmp_path: Path, before: dict[str, Any]) -> None:
    file = tmp_path / "out.json"
    Record(file, META).add([row("q1", time="t1"), row("q1", time="t2", **before)])
    again = Record(file, META, resume=True)
    assert not again.has("q1", "append-big", "ivm")
    again.add([row("q1", time="t1"), row("q1", time="t2")])
    assert again.has("q1", "append-big", "ivm")
    assert [r["equal"] for r in json.loads(file.read_text())["runs"]] == [True, True]


def test_what_duckdb_said_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    record = Record(file, META)
    record.add([row("q1")])
    record.add(batch=[{"query": "q1", "equal": True, "cause": None}])
    record.add(batch=[{"query": "q2", "equal": False, "cause": "ties"}])
    again = Record(file, META, resume=True)
    assert again.has_batch("q2")
    assert not again.has_batch("q3")
    summary = json.loads(file.read_text())["summary"]
    assert summary["duckdb"] == {"queries": 2, "equal": 1, "different": {"q2": "ties"}}


def test_a_record_of_other_settings_is_not_continued(tmp_path: Path) -> None:
    Record(tmp_path / "out.json", META).add([row("q1")])
    older = {name: value for name, value in META["options"].items() if value is not None}
    assert Record(tmp_path / "out.json", META | {"options": older}, resume=True).rows
    other = Sweep("tpch", 0.1, ("append-big",)).meta()
    with pytest.raises(TempuraError, match="OTHER_BENCHMARK"):
        Record(tmp_path / "out.json", other, resume=True)


def test_a_summary_counts_queries_not_rows() -> None:
    rows = [
        *(row("q1", nontrivial=None, covered=1.0), row("q1", covered=0.5)),
        *(row("q2", fallbacks=["WINDOW: x", "WINDOW: y"], nontrivial=None, covered=0.5), row("q2", equal=False)),
        *(row("q3", nontrivial=None), row("q3", equal=None, nontrivial=None, error="NO_PLAN")),
    ]
    found = summarised([*rows, row("q1", pattern="retract-both"), row("q3", pattern="retract-both")])
    assert (found["queries"], found["runs"], found["equal"], found["nontrivial"]) == (3, 8, 1, 3)
    assert (found["wrong"], found["failed"]) == (["q2"], {"q3": "NO_PLAN"})
    assert (found["fallbacks"], found["maintained_whole"]) == ({"q2": ["WINDOW"]}, 1)
    assert found["cpu_s"] == 8.0
    assert found["covered"] == {"q1": 0.75, "q2": 0.5}, "q3 tells no share"
    assert [(p["pattern"], p["queries"], p["equal"]) for p in found["patterns"]] == [
        ("append-big", 3, 1),
        ("retract-both", 2, 2),
    ]


def test_answers_are_compared_as_bags_with_close_numbers() -> None:
    left = [("a", Decimal("1.000000"), None), ("a", 2.0, None), ("b", 3, date(2000, 1, 1)), ("b", 3, date(2000, 1, 1))]
    right = [("b", 3.0, date(2000, 1, 1)), ("a", Decimal(2), None), ("a", 1.0000001, None)]
    assert differences(left, right) == ([("b", 3, date(2000, 1, 1))], [])
    assert differences([(1, None)], [(None, 1)]) == ([(1, None)], [(None, 1)])
    assert differences([(1.0,)], [(1.1,)]) == ([(1.0,)], [(1.1,)])
    assert differences([(True,)], [(1,)]) == ([(True,)], [(1,)])


def test_rules_are_knocked_out() -> None:
    found, registry = knocked_out(("im1", "batch"), "7.q1.0")
    names = {rule.name for rule in registry.methods[found.method]}
    assert "recompute_snapshot" in found.without
    assert names | set(found.without) == {rule.name for rule in TEMPURA.rules_of(("im1", "batch"))}
    assert not names & set(found.without)
    other, _ = knocked_out(("im1", "batch"), "7.q2.0")
    assert other.without != found.without
    assert found.method not in TEMPURA.methods


def test_a_defect_tells_the_calls_that_led_to_it_without_the_middle_of_very_many() -> None:
    def down(depth: int) -> None:
        if depth == 0:
            raise ValueError("no  further")
        down(depth - 1)

    def failure(depth: int) -> Row:
        with pytest.raises(ValueError, match="further") as caught:
            down(depth)
        return failure_of(caught.value)

    few, many = failure(2), failure(500)
    assert few["error"] == "ValueError"
    assert few["message"].startswith("no further (test_bench.py:")
    assert [call.split(", ")[1] for call in few["trace"]][-3:] == ["down", "down", "down"]
    assert len(many["trace"]) < 200
    assert sum("more" in call for call in many["trace"]) == 1
    assert many["trace"][0].split(", ")[1] == "failure"
    assert failure_of(TempuraError("UNKNOWN_QUERY", "no query")) == {
        "error": "UNKNOWN_QUERY",
        "message": "no query",
        "trace": None,
    }


def test_an_arrival_leaves_what_runs_have_noted_of_a_table(tmp_path: Path) -> None:
    stages = [written(tmp_path / f"stage-{i}" / "tables" / "sales", arrivals) for i, arrivals in enumerate("ab")]
    warehouse = tp.open(tmp_path / "warehouse")
    lake = Lake(tmp_path, {}, {}, tuple(stage.parent.parent for stage in stages), {})
    lake.arrive(warehouse, ["sales"], 0)
    home = warehouse.path / "tables" / "sales"
    for noted in ("sketches.json", "references.json"):
        (home / noted).write_text("noted")
    # Of a run that stored something together, which the next stage has not.
    (home / "arrivals" / "blocks.json").write_text("of this warehouse only")
    lake.arrive(warehouse, ["sales"], 1)
    there = {str(file.relative_to(home)) for file in home.rglob("*") if file.is_file()}
    assert there == {"sketches.json", "references.json", "arrivals/b.json", "data/b.parquet"}


def written(home: Path, name: str) -> Path:
    """The folder of a table with one arrival."""
    for file in (home / "arrivals" / f"{name}.json", home / "data" / f"{name}.parquet"):
        file.parent.mkdir(parents=True)
        file.write_text(name)
    return home
