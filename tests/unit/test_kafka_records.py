"""Records of topics that workers read and write: what is written is read again, whatever the values; what fits no column is refused."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempura.errors import TempuraError
from tempura.region.kafka.records import BadRecord, Reader, Writer

SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("big", pa.int64()),
        ("single", pa.float32()),
        ("wide", pa.float64()),
        ("price", pa.decimal128(12, 2)),
        ("whole", pa.decimal128(38, 0)),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("_change", pa.string()),
    ]
)


def decimals(digits: int, places: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-places) if digits < 28 else Decimal(n))


VALUES = {
    "flag": st.booleans(),
    "tiny": st.integers(-128, 127),
    "big": st.integers(-(1 << 63), (1 << 63) - 1),
    "single": st.floats(width=32),
    "wide": st.floats(),
    "price": decimals(12, 2),
    "whole": decimals(38, 0),
    "name": st.text(),
    "raw": st.binary(),
    "day": st.dates(),
    "at": st.datetimes(timezones=st.just(UTC)),
    "local": st.datetimes(),
}
ROWS = st.fixed_dictionaries(
    {name: st.none() | value for name, value in VALUES.items()} | {"_change": st.sampled_from(["insert", "delete"])}
)


@settings(max_examples=200)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_what_is_written_is_read_again(rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    reader = Reader(SCHEMA)
    again = reader.batch([reader.row(value) for _, value, _ in Writer(SCHEMA).records(batch)])
    assert again.schema == batch.schema
    for name in SCHEMA.names:
        for found, wanted in zip(again.column(name).to_pylist(), batch.column(name).to_pylist(), strict=True):
            same_nan = isinstance(found, float) and math.isnan(found) and math.isnan(wanted)
            assert same_nan or (found == wanted and repr(found) == repr(wanted)), name


def test_how_values_are_spelt() -> None:
    row = {
        "flag": True, "tiny": 1, "big": 1 << 60, "single": 0.5, "wide": math.inf, "price": Decimal("-1.50"), "whole": Decimal(10) ** 30,
        "name": 'ä"\n', "raw": b"\0\1\xff", "day": date(2024, 2, 29), "at": datetime(2024, 5, 6, 7, 8, 9, 5, UTC),
        "local": datetime(2024, 5, 6, 7, 8), "_change": "delete",
    }  # fmt: skip
    ((key, value, _),) = Writer(SCHEMA, ["name"]).records(pa.RecordBatch.from_pylist([row], schema=SCHEMA))
    assert key == 'ä"\n'.encode()
    assert value.decode() == (
        '{"flag":true,"tiny":1,"big":1152921504606846976,"single":0.5,"wide":"Infinity","price":-1.50,'
        '"whole":1000000000000000000000000000000,"name":"ä\\"\\n","raw":"AAH/","day":"2024-02-29",'
        '"at":"2024-05-06T07:08:09.000005Z","local":"2024-05-06T07:08:00.000000","_change":"delete"}'
    )


def test_times_are_written_in_utc() -> None:
    batch = pa.record_batch(
        {"at": pa.array([datetime(2024, 7, 1, 12, tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin"))}
    )
    assert Writer(batch.schema).records(batch)[0][1] == b'{"at":"2024-07-01T12:00:00.000000Z"}'


def test_keys_are_text_of_one_column_and_an_object_of_several() -> None:
    batch = pa.record_batch({"n": [7, None], "s": ["x", None], "_change": ["insert", "delete"]})
    assert [key for key, _, _ in Writer(batch.schema, ["n"]).records(batch)] == [b"7", None]
    assert [key for key, _, _ in Writer(batch.schema, ["s", "n"]).records(batch)] == [
        b'{"s":"x","n":7}',
        b'{"s":null,"n":null}',
    ]
    with pytest.raises(TempuraError, match=r"WRONG_SCHEMA.*to be m, which is no column"):
        Writer(batch.schema, ["m"])
    with pytest.raises(TempuraError, match=r"WRONG_SCHEMA.*no columns of type list"):
        Writer(pa.schema([("x", pa.list_(pa.int64()))]))
    for type in (pa.list_(pa.int64()), pa.uint8(), pa.timestamp("ns"), pa.time32("s")):
        for made in (Writer, Reader):
            with pytest.raises(TempuraError, match=r"WRONG_SCHEMA.*no columns of type"):
                made(pa.schema([("x", type)]))


def test_an_insert_and_the_delete_of_the_same_row_are_told_by_the_same() -> None:
    batch = pa.record_batch({"n": [7, 7, 8], "_time": [1.0, 2.0, 2.0], "_change": ["insert", "delete", "insert"]})
    first, second, other = (row for _, _, row in Writer(batch.schema).records(batch))
    assert first == second != other


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "it has no value, which deletes by key"),
        (b"\xff", "not text in UTF-8"),
        (b"", "'' is not one JSON object"),
        (b"[1]", r"'\[1\]' is not one JSON object"),
        (b'{"big":1} {"big":2}', "is not one JSON object"),
        (b'{"big":', "is not one JSON object"),
        (b'{"wide":NaN}', "is not one JSON object"),
        (b"[" * 100_000, "is not one JSON object"),
        (b'{"big":1,"big":2}', "a field is there twice"),
        (b'{"other":1,"more":2}', "it has more, other, which is no column"),
        (b'{"big":"1"}', "column big has the value '1', not int64"),
        (b'{"big":1.0}', "column big has the value '1.0', not int64"),
        (b'{"big":true}', "column big has the value 'true', not int64"),
        (b'{"big":9223372036854775808}', "column big"),
        (b'{"tiny":128}', "column tiny has the value '128', not int8"),
        (b'{"flag":1}', "column flag"),
        (b'{"wide":"1"}', "column wide has the value '1', not double"),
        (b'{"wide":1e999}', "column wide"),
        (b'{"single":1e39}', "column single"),
        (b'{"price":1.005}', "column price"),
        (b'{"price":10000000000}', "column price"),
        (b'{"price":1e999999999}', "column price"),
        (b'{"price":"1_0"}', "column price has the value '1_0', not decimal128"),
        (b'{"name":5}', "column name has the value '5', not string"),
        (b'{"name":"\\ud800"}', "column name"),
        (b'{"raw":"A"}', "column raw"),
        (b'{"raw":"\xc3\xa4==="}', "column raw"),
        (b'{"day":"2024-02-30"}', "column day has the value '2024-02-30', not date32"),
        (b'{"day":"20240301"}', "column day"),
        (b'{"at":"2024-05-06T07:08:09"}', "column at has the value"),
        (b'{"at":1}', "column at"),
        (b'{"at":"0001-01-01T00:00:00+10:00"}', "column at"),
        (b'{"local":"2024-05-06T07:08:09Z"}', "column local"),
        (b'{"local":"2024-05-06T07:08:09.1234567"}', "column local"),
        (b'{"big":1,"_change":"update"}', "_change is 'update', not insert or delete"),
        (b'{"big":1,"_change":1}', "_change is '1'"),
    ],
)
def test_what_fits_no_column_is_refused(value: bytes | None, why: str) -> None:
    with pytest.raises(BadRecord, match=why):
        Reader(SCHEMA).row(value)


def test_other_spellings_and_fields_that_are_not_there() -> None:
    schema = pa.schema(
        [("d", pa.decimal128(10, 2)), ("x", pa.float64()), ("at", pa.timestamp("us", "UTC")), ("_change", pa.string())]
    )
    reader = Reader(schema, ignore=True)
    rows = [
        b'{"d":"12.500","x":3,"at":"2024-05-06 07:08:09.5+02:00","more":{"a":[1]}}',
        b'{"d":1e3,"x":"-INF","_change":null}',
        b'{"d":0e9,"_change":"delete"} ',
    ]
    found = reader.batch([reader.row(value) for value in rows]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (Decimal("12.50"), 3.0, datetime(2024, 5, 6, 5, 8, 9, 500000, UTC), "insert"),
        (Decimal("1000.00"), -math.inf, None, "insert"),
        (Decimal("0.00"), None, None, "delete"),
    ]


def test_a_time_is_needed_where_it_is_a_column() -> None:
    schema = pa.schema([("n", pa.int64()), ("_time", pa.float64()), ("_change", pa.string())])
    assert Reader(schema).row(json.dumps({"n": 1, "_time": 2}).encode()) == [1, 2.0, "insert"]
    with pytest.raises(BadRecord, match="it has no _time"):
        Reader(schema).row(b'{"n":1}')
