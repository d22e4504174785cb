"""Runs of long ago are forgotten when somebody asks for it: none that a later run, a result or a publication goes by."""

from pathlib import Path

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.manifests import forget_manifests
from tempura.warehouse.runs.outputs import Outputs
from tempura.warehouse.warehouse import open_site
from tests.unit import bag_engine
from tests.unit.test_thousand_steps import NOON, Shop, per_category

RUNS = 360


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setitem(bag_engine.QUERIES, "per category", per_category)
    return Shop(tmp_path)


def run(shop: Shop, upto: int, first: int = 0) -> None:
    for n in range(first, upto):
        shop.step(n)


def numbers(shop: Shop) -> list[int]:
    return [run.n for run in shop.query.history()]


def test_what_is_left_goes_on(shop: Shop) -> None:
    run(shop, RUNS)
    steps = shop.wh.path / "queries/q/steps"
    said = shop.wh.gc(runs=100, dry_run=True)
    assert (steps / "1.json").exists()
    removed = shop.wh.gc(runs=100)
    assert sorted(removed) == sorted(said)
    assert not (steps / "256.json").exists()
    assert (steps / "257.json").exists()
    forget_manifests()
    assert numbers(shop) == list(range(257, RUNS + 1))
    assert shop.query.status()["runs"] == RUNS - 256
    assert shop.query.verify()
    run(shop, RUNS + 40, RUNS)
    assert shop.query.verify()
    shop.query = open_site(shop.wh.path, shop.engine, Files(), lambda: NOON).query("q")
    assert numbers(shop) == list(range(257, RUNS + 41))
    assert set(shop.wh.gc(runs=100).bytes) <= {"results", "states", "rows", "ledger"}


def test_a_checkpoint_leaves_out_what_no_program_reads(shop: Shop) -> None:
    run(shop, 20)
    forget_manifests()
    assert [bool(step.plan) for step in shop.query.steps()] == [False] * 16 + [True] * 4


def test_what_is_published_is_not_forgotten(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    run(shop, 3)
    path = shop.query.output(shop.wh.path / "published")
    monkeypatch.setattr(Outputs, "publish", lambda *_: ())
    run(shop, RUNS, 3)
    shop.wh.gc(runs=100)
    assert numbers(shop)[0] == 1
    monkeypatch.undo()
    shop.query.publish()
    assert path.exists()
    shop.wh.gc(runs=100)
    assert numbers(shop)[0] == 257


def test_fewer_runs_than_asked_for_are_kept(shop: Shop) -> None:
    run(shop, 20)
    assert not shop.wh.gc(runs=100).bytes.get("ledger")
    assert numbers(shop) == list(range(1, 21))


@pytest.mark.parametrize("runs", [0, -1, 99])
def test_too_few_are_refused(shop: Shop, runs: int) -> None:
    with pytest.raises(TempuraError, match="BAD_NUMBER"):
        shop.wh.gc(runs=runs)
