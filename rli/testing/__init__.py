"""What the author of a store needs to prove it: the conformance suite, a model, and generated data.

A backend's test module is one class::

    class TestMyStore(StoreConformance):
        def make_url(self, tmp_path: Path) -> str:
            return f"mystore://localhost/{uuid4().hex}"

Needs pytest and hypothesis.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "rli.testing.batches",
    "rli.testing.control_cases",
    "rli.testing.entry_cases",
    "rli.testing.lifecycle_cases",
    "rli.testing.mark_cases",
    "rli.testing.model",
    "rli.testing.scan_cases",
)

from rli.testing.conformance import StoreConformance  # noqa: E402  (its assertions are rewritten from here on)
from rli.testing.model import StoreMachine  # noqa: E402

__all__ = ["StoreConformance", "StoreMachine"]
