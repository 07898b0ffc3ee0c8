"""Bootstraps of indexes in servers over tables that hold keys more than once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import RepeatedKeyError
from tests.table.test_bootstrap_of_repeats import LEFT, table_with_repeats


def test_repeated_keys_are_named_everywhere(store_url: str, tmp_path: Path) -> None:
    table = table_with_repeats(tmp_path)
    with pytest.raises(RepeatedKeyError, match=r"'e' in .*'k' in .*'n' in "):
        table.bootstrap_index(store_url)
    assert table.bootstrap_index(on_duplicate="newest") == len(LEFT)
    assert table.verify_index(deep=True).agrees
