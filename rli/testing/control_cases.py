"""The contract's sentences about control records, as tests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from rli.index.record.log.commit_log import CommitLog
from rli.index.record.log.limits import LogLimits
from rli.index.record.log.record import RecordDraft
from rli.model import FileGroupId
from rli.store.contract import Store
from rli.testing.processes import count_up, run_in_processes, set_control


class ControlCases:
    """``read_control``, ``scan_control`` and ``compare_and_set``."""

    shares_processes: ClassVar[bool]

    def test_an_absent_record_is_none(self, store: Store) -> None:
        assert store.read_control("settings") is None
        assert store.scan_control("") == []

    def test_absent_record_can_be_set(self, store: Store) -> None:
        assert store.compare_and_set("settings", None, b"one")
        assert not store.compare_and_set("settings", None, b"two")
        assert store.read_control("settings") == b"one"

    def test_expected_record_is_replaced(self, store: Store) -> None:
        assert not store.compare_and_set("lease", b"one", b"two")
        assert store.read_control("lease") is None
        store.compare_and_set("lease", None, b"one")
        assert not store.compare_and_set("lease", b"on", b"two")
        assert not store.compare_and_set("lease", b"", b"two")
        assert store.read_control("lease") == b"one"
        assert store.compare_and_set("lease", b"one", b"two")
        assert store.read_control("lease") == b"two"

    def test_expected_record_is_removed(self, store: Store) -> None:
        store.compare_and_set("lease", None, b"one")
        assert not store.compare_and_set("lease", b"two", None)
        assert store.read_control("lease") == b"one"
        assert store.compare_and_set("lease", b"one", None)
        assert store.read_control("lease") is None
        assert store.scan_control("lease") == []
        assert store.compare_and_set("lease", None, None)
        assert store.compare_and_set("lease", None, b"three")

    def test_empty_value_is_not_absent(self, store: Store) -> None:
        assert store.compare_and_set("empty", None, b"")
        assert store.read_control("empty") == b""
        assert not store.compare_and_set("empty", None, b"x")
        assert store.compare_and_set("empty", b"", b"x")

    def test_value_is_kept_byte_for_byte(self, store: Store) -> None:
        value = bytes(range(256)) * 3 + b"\0\0"
        store.compare_and_set("bytes", None, value)
        assert store.read_control("bytes") == value
        assert store.compare_and_set("bytes", value, value)

    @pytest.mark.parametrize("size", [1 << 16, 5 << 20])
    def test_values_may_be_large(self, store: Store, size: int) -> None:
        value = bytes(range(256)) * (size // 256)
        assert store.compare_and_set("large", None, value)
        assert store.read_control("large") == value
        assert not store.compare_and_set("large", value[:-1], b"")
        assert store.compare_and_set("large", value, value[::-1])
        assert store.scan_control("la") == [("large", value[::-1])]

    def test_names_may_be_any_long_ascii(self, store: Store) -> None:
        names = ["n" * 200, "n" * 199, "a/b:c{d}*?[e]", "with space", "~", "Upper", "upper"]
        for name in names:
            assert store.compare_and_set(name, None, name.encode())
        assert store.scan_control("") == [(name, name.encode()) for name in sorted(names)]
        for name in names:
            assert store.read_control(name) == name.encode()

    def test_several_records_are_read_together(self, store: Store) -> None:
        large = bytes(range(256)) * (3 << 12)
        for name, value in (("a", b""), ("b", b"two"), ("c", large), ("gone", b"x")):
            store.compare_and_set(name, None, value)
        store.compare_and_set("gone", b"x", None)
        assert store.read_controls([]) == []
        assert store.read_controls(["b", "absent", "c", "a", "gone", "b"]) == [b"two", None, large, b"", None, b"two"]
        assert store.read_controls(["absent"]) == [None]

    def test_scan_gives_prefix_in_name_order(self, store: Store) -> None:
        names = ["commit/0009", "commit/0010", "commit/0002", "commit", "commit0", "commi", "lease", "commit/"]
        for name in names:
            store.compare_and_set(name, None, name.encode())
        found = [name for name, _ in store.scan_control("commit/")]
        assert found == ["commit/", "commit/0002", "commit/0009", "commit/0010"]
        assert [name for name, _ in store.scan_control("commit")] == sorted(set(names) - {"commi", "lease"})
        assert store.scan_control("none") == []

    def test_scan_starts_at_given_name(self, store: Store) -> None:
        for number in (8, 3, 5, 2):
            store.compare_and_set(f"log/{number}", None, b"%d" % number)
        store.compare_and_set("logs", None, b"")
        store.compare_and_set("lease", None, b"")
        for start, expected in (
            ("", [2, 3, 5, 8]),
            ("a", [2, 3, 5, 8]),
            ("log/3", [3, 5, 8]),
            ("log/4", [5, 8]),
            ("log/8", [8]),
            ("log/9", []),
            ("z", []),
        ):
            assert store.scan_control("log/", start) == [(f"log/{number}", b"%d" % number) for number in expected]

    def test_commit_log_agrees_with_its_checkpoints(self, store: Store) -> None:
        log = CommitLog(store, LogLimits(read_singly=2))
        groups = [FileGroupId("p", f"{number}-0") for number in range(12)]
        for number, group in enumerate(groups):
            instant = f"{number:017d}"
            draft = RecordDraft(
                instant=instant, action="commit", writer=instant, located_at=(instant,), file_groups=(group,)
            )
            assert log.append(log.refresh(), draft)
        read = CommitLog(store).refresh()
        assert len(read.records) < 5 <= len(read.base.pages)
        assert read.dictionary.numbers_of(groups) == {group: number for number, group in enumerate(groups)}
        assert read.dictionary.instants_of(np.array([1, 12])).to_pylist() == [f"{number:017d}" for number in (0, 11)]
        assert len(read.records_after(0)) == 12

    def test_single_thread_sets_record(self, store: Store) -> None:
        values = [b"%d" % number for number in range(8)]
        with ThreadPoolExecutor(len(values)) as threads:
            won = list(threads.map(lambda value: store.compare_and_set("race", None, value), values))
        assert won.count(True) == 1
        assert store.read_control("race") == values[won.index(True)]

    def test_no_change_of_threads_is_lost(self, store: Store) -> None:
        with ThreadPoolExecutor(4) as threads:
            for future in [threads.submit(count_up, store, "counter", 25) for _ in range(4)]:
                future.result()
        assert store.read_control("counter") == b"100"

    def test_single_process_sets_record(self, store: Store) -> None:
        if not self.shares_processes:
            return
        values = [b"%d" % number for number in range(3)]
        won = run_in_processes([partial(set_control, name="race", value=value) for value in values], store)
        assert won.count(True) == 1
        assert store.read_control("race") == values[won.index(True)]

    def test_no_change_of_processes_is_lost(self, store: Store) -> None:
        if not self.shares_processes:
            return
        run_in_processes([partial(count_up, name="counter", times=20)] * 3, store)
        assert store.read_control("counter") == b"60"
