"""Tests for the author of a store: the conformance suite, a model, and generated data.

A backend's test module is one class::

    class TestMyStore(StoreConformance):
        def make_url(self, tmp_path: Path) -> str:
            return f"mystore://localhost/{uuid4().hex}"

Needs the extra ``record-level-index[testing]``: pytest and hypothesis.
"""

from __future__ import annotations

try:
    import hypothesis  # noqa: F401
    import pytest
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"rli.testing needs pytest and hypothesis: module={error.name}; install them: "
        'pip install "record-level-index[testing]"',
        name=error.name,
    ) from error

pytest.register_assert_rewrite(
    "rli.testing.batches",
    "rli.testing.control_cases",
    "rli.testing.entry_cases",
    "rli.testing.lifecycle_cases",
    "rli.testing.watermark_cases",
    "rli.testing.model",
    "rli.testing.purge_cases",
    "rli.testing.scan_cases",
)

from rli.testing.batches import (  # noqa: E402  (assertions of these modules are rewritten from here on)
    entries_of,
    entry,
    get_all,
    key_batch,
    numbered_keys,
    random_keys,
    scanned,
    tombstones_of,
)
from rli.testing.conformance import StoreConformance  # noqa: E402
from rli.testing.model import StoreMachine  # noqa: E402

__all__ = [
    "StoreConformance",
    "StoreMachine",
    "entries_of",
    "entry",
    "get_all",
    "key_batch",
    "numbered_keys",
    "random_keys",
    "scanned",
    "tombstones_of",
]
