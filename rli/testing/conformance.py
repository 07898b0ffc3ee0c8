"""The conformance suite: the store contract as tests that any backend can run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.control_cases import ControlCases
from rli.testing.entry_cases import EntryCases
from rli.testing.find_cases import FindCases
from rli.testing.lifecycle_cases import LifecycleCases
from rli.testing.model import StoreMachine
from rli.testing.purge_cases import PurgeCases
from rli.testing.scan_cases import ScanCases
from rli.testing.watermark_cases import MarkCases


class StoreConformance(EntryCases, ScanCases, FindCases, ControlCases, MarkCases, PurgeCases, LifecycleCases):
    """Proves a backend; a subclass says where its stores are.

    The backend is reached through its entry point; a subclass may open its stores in another way.

    Attributes:
        shares_processes: whether a store that was pickled can be used in another process. Where not, unpickling
            there has to raise an error of rli that says so.
        model_settings: hypothesis' settings for the random histories that are compared with the model: a fifth as many
            examples as the profile that is loaded asks for.
    """

    shares_processes: ClassVar[bool] = True
    model_settings: ClassVar[settings] = settings(
        max_examples=settings().max_examples // 5,
        stateful_step_count=20,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    def make_url(self, tmp_path: Path) -> str:
        """The URL of a place where no index is; another one at each call."""
        raise NotImplementedError

    def open_store(self, url: str, *, create: bool) -> Store:
        """Open the store that ``url`` names."""
        return open_store(url, create=create)

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        """Where the test's index is."""
        return self.make_url(tmp_path)

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        """The test's index, empty; dropped afterwards."""
        with self.open_store(url, create=True) as store:
            yield store
        with self.open_store(url, create=True) as left_over:
            left_over.drop()

    def test_random_histories_agree_with_the_model(self, tmp_path: Path) -> None:
        suite = self

        class Machine(StoreMachine):
            def make_store(self) -> Store:
                return suite.open_store(suite.make_url(tmp_path), create=True)

            def reopen_store(self, url: str) -> Store:
                return suite.open_store(url, create=False)

        run_state_machine_as_test(Machine, settings=self.model_settings)
