"""The rates of a machine are measured once and kept; a cache that cannot be used costs a measurement and nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple
from pathlib import Path
from uuid import uuid4

import pytest

import rli
from rli.advice.calibration import VERSION, cached, calibration
from rli.errors import IndexNotFoundError, SettingsError
from rli.index.record.opening import open_index


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cache") / "calibration.json"
    # What is there is replaced.
    path.write_text("nothing")
    calibration(cache=path)
    return path


def test_every_rate_is_a_time(cache: Path) -> None:
    found = calibration(cache=cache)
    assert found.version == VERSION
    assert {"lmdb", "memory"} == set(found.stores)
    rates = [value for value in astuple(found) if isinstance(value, float)]
    assert all(0 <= rate < 60 for rate in rates)
    assert min(found.open_file, found.commit, *(store.lookup for store in found.stores.values())) > 0


def test_rates_are_kept(cache: Path) -> None:
    before = cache.read_bytes()
    assert calibration(cache=cache) == calibration(cache=cache)
    assert cache.read_bytes() == before
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


@pytest.mark.parametrize("damage", ["nothing", '{"version": 0}', "", "[]"])
def test_a_damaged_cache_keeps_nothing(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "calibration.json"
    assert cached(path) is None
    path.write_text(damage)
    assert cached(path) is None


def test_rates_of_other_machine_are_ignored(cache: Path, tmp_path: Path) -> None:
    path, found = tmp_path / "calibration.json", asdict(calibration(cache=cache))
    path.write_text(json.dumps(found))
    assert cached(path) == calibration(cache=cache)
    for other in ({"machine": "another one"}, {"version": VERSION + 1}):
        path.write_text(json.dumps({**found, **other}))
        assert cached(path) is None


def test_measured_store_is_left_unchanged(cache: Path, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    found = calibration(url, cache=cache)
    assert found.stores[url].lookup > 0
    with pytest.raises(IndexNotFoundError):
        open_index(url)


@pytest.mark.parametrize("options", ["", "?scope=partition", "?scope=partition&partitions=day.*&ttl=30d"])
def test_existing_index_is_only_read(cache: Path, tmp_path: Path, options: str) -> None:
    store = f"memory:{uuid4().hex}"
    with rli.create_table(tmp_path / "t", record_key="id", partition_by="day", index=store + options) as table:
        before = table.index.stats()
        assert calibration(store, cache=cache).stores[store].lookup > 0
        assert table.index.stats() == before


def test_url_without_store_is_refused(cache: Path) -> None:
    with pytest.raises(SettingsError, match="floppy"):
        calibration("floppy://disk", cache=cache)
