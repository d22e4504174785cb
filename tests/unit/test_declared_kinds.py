"""Values of a wrong kind, in ``tempura.toml`` and given by a program: refused with a code, by name, before anything reads them."""

import re
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.declare import OutputSpec, QuerySpec, TableSpec
from tempura.warehouse.declared.kafka import KafkaSpec
from tempura.warehouse.declared.kinds import KAFKA, OUTPUT, QUERY, SCHEDULES, TABLE, shown
from tempura.warehouse.query import Query
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, BagEngine

TABLE_TEXT = '[tables.sales]\nschema = "o_id INT, cat STRING"\n'
QUERY_TEXT = '[queries.q]\nsql = "count of sales"\n'
VIEW = 'schedule = {kind = "view"}\n'
PACED = 'kind = "paced", until = "2026-03-01T18:00", final_work = 0.1'
IN_SCHEDULE = "schedule in [queries.q]"
IN_OUTPUTS = "outputs in [queries.q]"


@pytest.fixture
def wh(tmp_path: Path) -> Warehouse:
    return open_site(tmp_path / "wh", BagEngine(), Files(), lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))


def read(wh: Warehouse, text: str) -> dict[str, Any]:
    (wh.path / "tempura.toml").write_text(text)
    return wh.status()


def refused(wh: Warehouse, text: str) -> TempuraError:
    with pytest.raises(TempuraError) as error:
        read(wh, text)
    return error.value


class TestFile:
    @pytest.mark.parametrize("text", ["[table.sales]\nschema = 'o_id INT'", "query = 3", "[Tables]", "rule = 'x'"])
    def test_of_sections_that_nobody_reads(self, wh: Warehouse, text: str) -> None:
        error = refused(wh, f"{text}\n")
        assert error.code == "BAD_TOML"
        assert "Known: [tables…], [queries…], [rules…]." in str(error)

    @pytest.mark.parametrize(
        "line",
        [
            "path = 3", 'path = ""', 'path = " "', 'path = ["lake"]', 'path = "a\\u0000b"', "path = true", "format = 3",
            'format = ""', "keys = 3", 'keys = "o_id"', "keys = [3]", 'keys = [""]', 'keys = [["o_id"]]', "keys = {a = 1}",
            "added = 3", 'added = "cat"', 'settle = "x"', "settle = []", "settle = nan", "settle = inf", "settle = -1",
            "settle = -0.5", "settle = true", "options = 3", 'options = "sep"', "options = {header = []}",
            "options = {sep = {}}", 'static = "no"', 'append_only = "false"', 'follow_links = "no"', "static = 1",
            "static = []", "query = 3", 'query = ""', "new_columns = 3", "new_columns = []", "stats = 3",
        ],
    )  # fmt: skip
    def test_of_a_table(self, wh: Warehouse, line: str) -> None:
        error = refused(wh, TABLE_TEXT + line)
        assert error.code == "BAD_TOML"
        assert error.what == f"[tables.sales] has {line}."
        assert error.remedy

    @pytest.mark.parametrize("value", ["3", "[]", "true", '""', "1979-05-27"])
    def test_of_a_schema(self, wh: Warehouse, value: str) -> None:
        error = refused(wh, f"[tables.sales]\nschema = {value}\n")
        assert (error.code, error.what) == ("BAD_TOML", f"[tables.sales] has schema = {value}.")

    @pytest.mark.parametrize(("line", "code"), [("expect = []", "BAD_EXPECT"), ("references = 3", "BAD_REFERENCES")])
    def test_codes_of_their_own(self, wh: Warehouse, line: str, code: str) -> None:
        assert refused(wh, TABLE_TEXT + line).code == code

    @pytest.mark.parametrize(
        "line",
        [
            "sql = 3", "sql = []", "outputs = 3", "outputs = [3]", 'outputs = "out"', "methods = 3", 'methods = "im1"',
            "methods = [1]", 'schedule = "view"', "schedule = 3", "schedule = []",
        ],
    )  # fmt: skip
    def test_of_a_query(self, wh: Warehouse, line: str) -> None:
        others = {"sql": VIEW, "schedule": 'sql = "SELECT 1"\n'}.get(
            line.partition(" ")[0], VIEW + 'sql = "SELECT 1"\n'
        )
        error = refused(wh, f"{TABLE_TEXT}[queries.q]\n{others}{line}\n")
        assert (error.code, error.what) == ("BAD_TOML", f"[queries.q] has {line}.")

    def test_of_a_fingerprint(self, wh: Warehouse) -> None:
        error = refused(wh, f"[queries.q]\nfingerprint = 3\n{VIEW}")
        assert (error.code, error.what) == ("BAD_TOML", "[queries.q] has fingerprint = 3.")

    @pytest.mark.parametrize(
        ("output", "says"),
        [
            ("{path = 3}", "has path = 3"),
            ('{path = ""}', 'has path = ""'),
            ('{path = "x", keys = "a"}', 'has keys = "a"'),
            ('{path = "x", mode = 3}', "has mode = 3"),
            ('{mode = "upsert"}', "lacks path"),
            ('{path = "x", key = ["a"]}', "has unknown key"),
        ],
    )
    def test_of_an_output(self, wh: Warehouse, output: str, says: str) -> None:
        error = refused(wh, f"{TABLE_TEXT}{QUERY_TEXT}{VIEW}outputs = [{output}]")
        assert (error.code, error.what) == ("BAD_TOML", f"{IN_OUTPUTS} {says}.")

    @pytest.mark.parametrize(
        ("schedule", "says"),
        [
            ('kind = "view", n = "x"', 'has n = "x"'),
            ('kind = "view", n = 2.5', "has n = 2.5"),
            ('kind = "view", n = true', "has n = true"),
            ('kind = "view", m = 3', "has unknown m"),
            ('kind = "progressive", times = {"24:00" = "1"}', 'has times = {"24:00" = "1"}'),
            ('kind = "progressive", times = {"24:00" = true}', 'has times = {"24:00" = true}'),
            ('kind = "progressive", times = {"24:00" = nan}', 'has times = {"24:00" = nan}'),
            ('kind = "progressive", times = ["24:00"]', 'has times = ["24:00"]'),
            ('kind = "progressive"', "lacks times"),
            ('kind = "progressive", times = {"24:00" = 1}, timezone = 3', "has timezone = 3"),
            ('kind = "progressive", times = {"24:00" = 1}, timezon = "UTC"', "has unknown timezon"),
            ('kind = "fixed", times = "ab", weights = [1, 1], outputs = [true, true]', 'has times = "ab"'),
            ('kind = "fixed", times = ["a"], weights = ["1"], outputs = [true]', 'has weights = ["1"]'),
            ('kind = "fixed", times = ["a"], weights = [1], outputs = ["no"]', 'has outputs = ["no"]'),
            ('kind = "paced", until = 3, final_work = 0.1', "has until = 3"),
            ('kind = "paced", until = "", final_work = 0.1', 'has until = ""'),
            (f"{PACED}, since = 3", "has since = 3"),
            (f"{PACED}, strategy = 3", "has strategy = 3"),
            (f"{PACED}, max_pace = 2.5", "has max_pace = 2.5"),
            (f'{PACED}, total_work = "x"', 'has total_work = "x"'),
            (f"{PACED}, paces = 3", "has unknown paces"),
        ],
    )
    def test_of_a_schedule(self, wh: Warehouse, schedule: str, says: str) -> None:
        error = refused(wh, f"{TABLE_TEXT}{QUERY_TEXT}schedule = {{{schedule}}}")
        assert (error.code, error.what) == ("BAD_TOML", f"{IN_SCHEDULE} {says}.")
        assert error.remedy

    def test_a_key_that_is_not_known_is_told_with_those_that_are(self, wh: Warehouse) -> None:
        error = refused(wh, f'{QUERY_TEXT}schedule = {{kind = "view", m = 3}}')
        assert error.remedy == "Known: kind, n."

    @pytest.mark.parametrize("schedule", ["kind = 3", "kind = []", 'kind = "never"', "n = 3", 'kind = "view", n = 0'])
    def test_what_is_wrong_with_a_schedule_is_told_of_its_query(self, wh: Warehouse, schedule: str) -> None:
        error = refused(wh, f"{QUERY_TEXT}schedule = {{{schedule}}}")
        assert error.code == "BAD_SCHEDULE"
        assert error.what.startswith(f"{IN_SCHEDULE}: ")

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("tables = 3", "[tables] is 3."),
            ("queries = []", "[queries] is a list."),
            ("[[tables]]\nschema = 'a INT'", "[tables] is a list."),
            ("[tables]\nx = 3", "[tables.x] is 3."),
            ("[queries]\nx = 3", "[queries.x] is 3."),
            ("[[queries.x]]\nsql = 'SELECT 1'", "[queries.x] is a list."),
            (f"{TABLE_TEXT}format = 'kafka'\nkafka = [{{servers = 'a:1'}}]", "[tables.sales.kafka] is a list."),
            ("rules = 3", "[rules] is 3."),
            ("[rules]\nmodules = 'my'", '[rules] has modules = "my".'),
            ("[rules]\nmodules = ['a/b']", '[rules] has modules = ["a/b"].'),
        ],
    )
    def test_of_sections(self, wh: Warehouse, text: str, what: str) -> None:
        error = refused(wh, text)
        assert (error.code, error.what) == ("BAD_TOML", what)

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ("servers = 3\ntopic = 't'", "has servers = 3"),
            ("servers = 'a:1'\ntopic = 3", "has topic = 3"),
            ("servers = 'a:1'\ntopic = 't'\navro_schema = 3", "has avro_schema = 3"),
            ("servers = 'a:1'\ntopic = 't'\nvalue_format = []", "has value_format = []"),
            ("servers = 'a:1'\ntopic = 't'\nconnection = 'my secret'", "has connection of another kind"),
        ],
    )
    def test_of_a_topic(self, wh: Warehouse, line: str, says: str) -> None:
        error = refused(wh, f'{TABLE_TEXT}format = "kafka"\n[tables.sales.kafka]\n{line}')
        assert (error.code, error.what) == ("BAD_TOML", f"[tables.sales.kafka] {says}.")
        assert "my secret" not in str(error)

    def test_numbers_without_end(self, wh: Warehouse) -> None:
        many = "1" + 400 * "0"
        assert refused(wh, f"{TABLE_TEXT}settle = {many}").code == "BAD_TOML"
        assert refused(wh, f"{TABLE_TEXT}settle = {5000 * '1'}").code == "BAD_TOML"
        assert refused(wh, f'{QUERY_TEXT}schedule = {{kind = "view", n = {many}}}').code == "BAD_TOML"
        assert refused(wh, f"{QUERY_TEXT}{VIEW}storage_price = {many}").code == "BAD_STORAGE_PRICE"

    def test_what_is_sound_is_read(self, wh: Warehouse) -> None:
        (wh.path / "lake").mkdir()
        folder = (
            'path = "lake"\nformat = "csv"\nsettle = 2\noptions = {sep = ";", header = true, n = 9}\nstatic = false\n'
        )
        folder += 'added = ["cat"]\n'
        text = f'{TABLE_TEXT}{folder}keys = ["o_id"]\n[tables.m]\nschema = "a INT"\n{QUERY_TEXT}'
        for schedule in (
            'kind = "view"',
            'kind = "view", n = 5',
            'kind = "progressive", times = {"14:00" = 0, "24:00" = 1.0}, timezone = "Europe/Berlin"',
            'kind = "fixed", times = ["a", 2], weights = [1, 0.5], outputs = [false, true]',
        ):
            found = read(wh, f"{text}schedule = {{{schedule}}}\nmethods = ['im1']\noutputs = [{{path = 'out'}}]\n")
            assert (set(found["tables"]), set(found["queries"])) == ({"sales", "m"}, {"q"})
        assert wh.table("sales").schema.names == ["o_id", "cat"]

    def test_moments_may_be_dates_of_toml(self, wh: Warehouse) -> None:
        moments = "until = 2026-03-01T18:00:00, since = 2026-03-01T09:00:00"
        read(wh, f'{TABLE_TEXT}{QUERY_TEXT}schedule = {{kind = "paced", {moments}, final_work = 0.1}}')
        deadline = wh.query("q").schedule.deadline
        assert deadline
        assert (deadline.until, deadline.since) == ("2026-03-01T18:00:00", "2026-03-01T09:00:00")


class TestProgram:
    @pytest.mark.parametrize(
        ("given", "code"),
        [
            ({"settle": -1}, "BAD_OPTION"),
            ({"settle": float("nan")}, "BAD_OPTION"),
            ({"settle": "x"}, "BAD_OPTION"),
            ({"settle": None}, "BAD_OPTION"),
            ({"keys": "o_id"}, "BAD_KEYS"),
            ({"keys": None}, "BAD_KEYS"),
            ({"keys": [3]}, "BAD_KEYS"),
            ({"options": 3}, "BAD_OPTION"),
            ({"options": {"sep": None}}, "BAD_OPTION"),
            ({"static": "no"}, "BAD_OPTION"),
            ({"append_only": "false"}, "BAD_OPTION"),
            ({"follow_links": "no"}, "BAD_OPTION"),
            ({"path": 3}, "BAD_SOURCE"),
            ({"path": ""}, "BAD_SOURCE"),
            ({"query": 3}, "BAD_SOURCE"),
            ({"format": 3}, "UNSUPPORTED_FORMAT"),
            ({"schema": 3}, "BAD_SCHEMA"),
            ({"format": "kafka", "servers": "a:1", "topic": "t", "start": 3}, "BAD_OPTION"),
            ({"format": "kafka", "servers": "a:1", "topic": "t", "connection": "my secret"}, "BAD_OPTION"),
        ],
    )
    def test_of_a_table(self, wh: Warehouse, given: dict[str, Any], code: str) -> None:
        with pytest.raises(TempuraError) as error:
            wh.add_table("sales", **{"schema": "o_id INT, cat STRING", **given})
        assert error.value.code == code
        name, value = list(given.items())[-1]
        assert f"{name} is {value!r}." in error.value.what or name in ("start", "connection")
        assert "my secret" not in str(error.value)
        assert wh.tables() == ()

    def test_what_fits(self, wh: Warehouse, tmp_path: Path) -> None:
        (tmp_path / "lake").mkdir()
        options: Any = {"header": True, "sep": ";"}
        keys = (name for name in ["o_id"])
        wh.add_table("sales", tmp_path / "lake", "csv", "o_id INT, cat STRING", keys, settle=3, options=options)
        text = (wh.path / "tempura.toml").read_text()
        assert 'keys = ["o_id"]' in text
        assert 'header = "True"' in text
        assert wh.status()["tables"]["sales"]["version"] == 0

    @pytest.mark.parametrize(
        ("given", "code"),
        [
            ({"sql": 3}, "BAD_QUERY"),
            ({"sql": COUNT, "schedule": "x"}, "BAD_SCHEDULE"),
            ({"sql": COUNT, "schedule": 3}, "BAD_SCHEDULE"),
        ],
    )
    def test_of_a_query(self, wh: Warehouse, given: dict[str, Any], code: str) -> None:
        wh.add_table("sales", schema="o_id INT, cat STRING")
        with pytest.raises(TempuraError) as error:
            wh.add_query("q", **given)
        assert error.value.code == code
        assert wh.queries() == ()
        before = wh.add_query("q", COUNT).schedule
        with pytest.raises(TempuraError) as error:
            wh.replace_query("q", **given)
        assert error.value.code == code
        assert wh.query("q").schedule == before

    @pytest.mark.parametrize(
        "make",
        [
            lambda wrong: Schedule.view(n=wrong),
            Schedule.progressive,
            lambda wrong: Schedule.progressive({"14:00": wrong}),
            lambda wrong: Schedule(("a",), wrong, (True,)),
            lambda wrong: Schedule(("a",), (1.0,), wrong),
            lambda wrong: Schedule(("a",), (1.0,), (wrong,)),
            Schedule.from_json,
            Schedule.paced,
            lambda wrong: Schedule.paced("18:00", final_work=0.1, since=[wrong]),  # type: ignore[arg-type]
        ],
    )
    @pytest.mark.parametrize("wrong", ["x", None, 10**400])
    def test_of_a_schedule(self, make: Callable[[Any], Schedule], wrong: Any) -> None:
        with pytest.raises(TempuraError) as error:
            make(wrong)
        assert error.value.code == "BAD_SCHEDULE"

    @pytest.mark.parametrize("n", [2.5, True, 0, 10**10])
    def test_of_refreshes(self, n: Any) -> None:
        with pytest.raises(TempuraError, match="BAD_SCHEDULE"):
            Schedule.view(n)

    def test_prices_are_numbers_of_any_type(self) -> None:
        given: Any = {"14:00": np.int64(0), "24:00": Decimal("1.5")}
        assert Schedule.progressive(given).weights == (0.0, 1.5)

    @pytest.mark.parametrize("times", [None, 3])
    def test_of_times(self, times: Any) -> None:
        with pytest.raises(TempuraError, match="BAD_SCHEDULE"):
            Schedule(times, (1.0,), (True,))

    def test_of_a_zone(self) -> None:
        zone: Any = 3
        with pytest.raises(TempuraError, match=r"BAD_SCHEDULE.*is 3"):
            Schedule.progressive({"24:00": 1.0}, timezone=zone)

    @pytest.mark.parametrize(
        "given", [{"final_work": "x"}, {"total_work": True}, {"final_work": 0.1, "strategy": 3}, {"strategy": {3: 4}}]
    )
    def test_of_paces(self, given: dict[str, Any]) -> None:
        with pytest.raises(TempuraError) as error:
            Schedule.paced("18:00", **given)
        assert error.value.code == "BAD_PACES"


@pytest.mark.parametrize("zone", ["Foo/Bar", "Mars", "../UTC"])
def test_a_time_zone_that_is_not_there_is_not_declared(wh: Warehouse, zone: str) -> None:
    wh.add_table("sales", schema="o_id INT, cat STRING")
    times = {"14:00": 0.25, "24:00": 1.0}
    for schedule in (
        Schedule.progressive(times, timezone=zone),
        Schedule.paced("18:00", final_work=0.1, timezone=zone),
    ):
        with pytest.raises(TempuraError) as error:
            wh.add_query("q", COUNT, schedule=schedule)
        assert error.value.code == "BAD_TIMEZONE"
    assert wh.status()["queries"] == {}
    wh.add_query("q", COUNT, schedule=Schedule.progressive(times, timezone="Europe/Berlin"))
    with pytest.raises(TempuraError) as error:
        wh.add_query("q", COUNT, schedule=Schedule.progressive(times, timezone=zone))
    assert error.value.code == "BAD_TIMEZONE"
    assert wh.query("q").schedule.timezone == "Europe/Berlin"


def query_of(wh: Warehouse) -> Query:
    wh.add_table("sales", schema="o_id INT, cat STRING").append([(1, "x")])  # type: ignore[arg-type]
    query = wh.add_query("q", COUNT)
    query.run()
    return query


class TestCalls:
    """Arguments of a wrong kind, given to what is no declaration."""

    @pytest.mark.parametrize("name", [None, 3, ["sales"], {"a": 1}])
    def test_names(self, wh: Warehouse, name: Any) -> None:
        with pytest.raises(TempuraError, match=f"There is no table {re.escape(repr(name))}") as error:
            wh.table(name)
        assert error.value.code == "UNKNOWN_TABLE"
        with pytest.raises(TempuraError, match=f"There is no query {re.escape(repr(name))}") as error:
            wh.query(name)
        assert error.value.code == "UNKNOWN_QUERY"

    def test_one_name_of_a_query_is_not_taken_apart(self, wh: Warehouse) -> None:
        query_of(wh)
        assert [outcome.query for outcome in wh.verify("q")] == ["q"]
        assert [outcome.query for outcome in wh.savings("q")] == ["q"]
        assert len(wh.run("q")) == 1
        others: tuple[Any, ...] = ("nope", 3)
        for names in others:
            for call in (wh.verify, wh.measure, wh.savings, wh.run, wh.follow):
                with pytest.raises(TempuraError, match=f"There is no query {names!r}") as error:
                    call(names)
                assert error.value.code == "UNKNOWN_QUERY"

    @pytest.mark.parametrize("methods", [3, True, [3], [None], [["im1"]]])
    def test_methods(self, wh: Warehouse, methods: Any) -> None:
        query = query_of(wh)
        calls: list[Callable[[], object]] = [
            lambda: query.run(methods=methods),
            lambda: query.plan(methods=methods),
            lambda: wh.add_query("other", COUNT, methods=methods),
            lambda: wh.replace_query("q", COUNT, methods=methods),
        ]
        for call in calls:
            with pytest.raises(TempuraError, match=f"methods is {re.escape(repr(methods))}") as error:
                call()
            assert error.value.code == "UNKNOWN_METHOD"

    def test_methods_one_after_the_other(self, wh: Warehouse) -> None:
        assert query_of(wh).plan(methods=iter(["batch"])).plan.method == "batch"  # type: ignore[arg-type]

    @pytest.mark.parametrize("value", ["x", None, 1.5, True, 0, -1, [2]])
    def test_how_many_are_kept(self, wh: Warehouse, value: Any) -> None:
        with pytest.raises(TempuraError, match=re.escape(f"{value!r} results cannot be kept")) as error:
            wh.gc(keep=value)
        assert error.value.code == "BAD_NUMBER"
        if value is not None:
            with pytest.raises(TempuraError, match=re.escape(f"To remember {value!r} runs")) as error:
                wh.gc(runs=value)
            assert error.value.code == "BAD_NUMBER"

    @pytest.mark.parametrize("every", ["x", None, True])
    def test_how_often_to_look(self, wh: Warehouse, every: Any) -> None:
        with pytest.raises(TempuraError, match=f"To look every {every!r} seconds") as error:
            wh.follow(every=every)
        assert error.value.code == "BAD_NUMBER"

    @pytest.mark.parametrize("schedule", ["x", 3, {"kind": "view"}, ()])
    def test_schedules(self, wh: Warehouse, schedule: Any) -> None:
        with pytest.raises(TempuraError, match="The schedule is") as error:
            query_of(wh).plan(schedule=schedule)
        assert error.value.code == "BAD_SCHEDULE"

    @pytest.mark.parametrize("zone", ["", " "])
    def test_time_zones(self, wh: Warehouse, zone: str) -> None:
        with pytest.raises(TempuraError, match="The time zone of a schedule is") as error:
            Schedule.progressive({"14:00": 1.0}, timezone=zone)
        assert error.value.code == "BAD_SCHEDULE"
        with pytest.raises(TempuraError, match="The time zone of a schedule is") as error:
            Schedule.paced("2026-03-01T18:00", final_work=0.1, timezone=zone)
        assert error.value.code == "BAD_SCHEDULE"

    def test_places_of_pages(self, wh: Warehouse, tmp_path: Path) -> None:
        plan = query_of(wh).plan()
        with pytest.raises(TempuraError, match=f"there is no folder {tmp_path}/nope") as error:
            plan.save_html(tmp_path / "nope" / "x.html")
        assert error.value.code == "FOLDER_MISSING"
        plan.save_html(tmp_path / "x.html")
        assert (tmp_path / "x.html").exists()

    @pytest.mark.parametrize("path", [None, 3, ["out"], b"out"])
    def test_paths(self, wh: Warehouse, path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "empty").mkdir()
        monkeypatch.chdir(tmp_path / "empty")
        query = query_of(wh)
        calls: list[Callable[[], object]] = [
            lambda: query.output(path),
            lambda: open_site(path, BagEngine(), Files()),
            lambda: tp.open(path),
        ]
        for call in calls:
            with pytest.raises(TempuraError, match=f"{re.escape(repr(path))} is no path") as error:
                call()
            assert error.value.code == "UNSUPPORTED_PATH"
        assert query.published_at == ()
        assert not list(Path().iterdir())

    @pytest.mark.parametrize(
        ("name", "value"), [("keys", "n"), ("keys", [3]), ("keys", 3), ("keys", None), ("mode", None)]
    )
    def test_outputs(self, wh: Warehouse, tmp_path: Path, name: str, value: Any) -> None:
        with pytest.raises(TempuraError, match=f"{name} is {re.escape(repr(value))}") as error:
            query_of(wh).output(tmp_path / "out", **{"mode": "upsert", "keys": ["n"]} | {name: value})
        assert error.value.code == "BAD_OUTPUT"

    def test_keys_that_occur_twice(self, wh: Warehouse) -> None:
        with pytest.raises(TempuraError, match="a list of column names, each once") as error:
            wh.add_table("sales", schema="o_id INT", keys=["o_id", "o_id"])
        assert error.value.code == "BAD_KEYS"

    @pytest.mark.parametrize("clock", [3, "now", lambda: 3, lambda: None])
    def test_clocks(self, tmp_path: Path, clock: Any) -> None:
        with pytest.raises(TempuraError, match="The clock") as error:
            query_of(open_site(tmp_path / "wh", BagEngine(), Files(), clock))
        assert error.value.code == "BAD_CLOCK"


@pytest.mark.parametrize(
    ("spec", "kinds"), [(TableSpec, TABLE), (KafkaSpec, KAFKA), (QuerySpec, QUERY), (OutputSpec, OUTPUT)]
)
def test_each_field_has_its_kind(spec: Any, kinds: Any) -> None:
    assert {field.name for field in fields(spec)} == set(kinds)


def test_examples_are_of_their_kind_and_in_one_line() -> None:
    for kinds in (TABLE, KAFKA, QUERY, OUTPUT, *(kinds for kinds, _ in SCHEDULES.values())):
        for kind in kinds.values():
            assert kind.fits(kind.example)
            assert "\n" not in shown(kind.example)
