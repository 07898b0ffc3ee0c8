"""The rates of a machine are measured once and kept; a cache that cannot be used costs a measurement and nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple
from pathlib import Path
from uuid import uuid4

import pytest

from rli.advice.calibration import VERSION, cached, calibration
from rli.errors import IndexNotFoundError, SettingsError
from rli.index.record.record_index import create_index, open_index


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
    assert min(found.open_file, found.write_row, found.commit, found.join_key) > 0


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


def test_rates_of_another_machine_or_version_do_not_count(cache: Path, tmp_path: Path) -> None:
    path, found = tmp_path / "calibration.json", asdict(calibration(cache=cache))
    path.write_text(json.dumps(found))
    assert cached(path) == calibration(cache=cache)
    for other in ({"machine": "another one"}, {"version": VERSION + 1}):
        path.write_text(json.dumps({**found, **other}))
        assert cached(path) is None


def test_a_store_is_left_as_it_was(cache: Path, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    found = calibration(url, cache=cache)
    assert found.stores[url].lookup_key > 0
    with pytest.raises(IndexNotFoundError):
        open_index(url)


def test_an_index_that_is_there_is_only_looked_up_in(cache: Path) -> None:
    url = f"memory:{uuid4().hex}"
    with create_index(url) as index:
        before = index.stats()
        assert calibration(url, cache=cache).stores[url].lookup_key > 0
        assert index.stats() == before


def test_a_url_of_no_store_is_refused(cache: Path) -> None:
    with pytest.raises(SettingsError, match="floppy"):
        calibration("floppy://disk", cache=cache)
