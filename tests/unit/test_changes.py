"""What changed from one JSON object to the next."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tempura.warehouse.commits.changes import change, changed
from tempura.warehouse.commits.manifests import to_bytes

keys = st.sampled_from("abc")
plain = st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from([0.0, -0.0, 1.0, 0.5]) | st.sampled_from("xy")
values = st.recursive(plain, lambda v: st.lists(v, max_size=2) | st.dictionaries(keys, v, max_size=3), max_leaves=8)
objects = st.dictionaries(keys, values, max_size=3)


@given(objects, objects)
def test_a_change_makes_one_object_of_the_other(before: dict[str, object], now: dict[str, object]) -> None:
    told = json.loads(json.dumps(change(before, now)))
    assert to_bytes(changed(before, told)) == to_bytes(now)


def test_only_what_changed_is_told() -> None:
    before = {"n": 1, "of": {"rows": 3, "by": "x"}, "gone": None, "same": [1, 2]}
    now = {"n": 1.0, "of": {"rows": 3, "by": {}}, "same": [1, 2]}
    assert change(before, now) == {"n": [1.0], "of": {"by": [{}]}, "gone": []}


def test_what_did_not_change_is_shared() -> None:
    before = {"n": 1, "settings": {"a": "b"}}
    assert changed(before, {"n": [2]})["settings"] is before["settings"]
