from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.errors import CorruptTableError, SettingsError
from rli.hudi.timeline.instant import Instant, InstantState, format_instant_time, new_instant_time, parse_instant_time

MOMENTS = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2900, 1, 1)).map(  # noqa: DTZ001
    lambda moment: moment.replace(tzinfo=UTC)
)
NOON = datetime(2024, 5, 31, 12, 0, 0, 123_456, tzinfo=UTC)


@given(MOMENTS, MOMENTS)
def test_times_order_like_their_moments(one: datetime, other: datetime) -> None:
    by_millisecond = sorted([one, other], key=lambda moment: moment.timestamp() // 0.001)
    times = [format_instant_time(moment) for moment in by_millisecond]
    assert times == sorted(times)


@given(MOMENTS, MOMENTS)
def test_new_time_exceeds_last(now: datetime, last: datetime) -> None:
    after = format_instant_time(last)
    time = new_instant_time(now, after)
    assert time > after
    assert len(time) == 17
    assert parse_instant_time(time) == time


def test_new_time_is_now_by_default() -> None:
    assert new_instant_time(NOON, None) == "20240531120000123"
    assert new_instant_time(NOON, "20240531115959999") == "20240531120000123"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("20240531120000123", "20240531120000124"),
        ("20241231235959999", "20250101000000000"),
        ("20240601000000", "20240601000001000"),
        ("20240601000000000001", "20240601000000001"),
    ],
)
def test_new_time_follows_future_time(after: str, expected: str) -> None:
    assert new_instant_time(NOON, after) == expected
    assert expected > after


def test_invalid_newest_time_is_reported() -> None:
    with pytest.raises(CorruptTableError, match="instant=99999999999999999"):
        new_instant_time(NOON, "99999999999999999")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20240531120000123", "20240531120000123"),
        ("20240531120000", "20240531120000999"),
        (" 2024-05-31 ", "20240531000000000"),
        ("2024-05-31T12:00:00", "20240531120000000"),
        ("2024-05-31 12:00:00.1239", "20240531120000123"),
        ("2024-05-31T12:00:00Z", "20240531120000000"),
        ("2024-05-31T12:00:00+02:00", "20240531100000000"),
    ],
)
def test_times_that_users_give(text: str, expected: str) -> None:
    assert parse_instant_time(text) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2024", "20241331120000", "202405311200001234", "٢٠٢٤٠٥٣١١٢٠٠٠٠"])
def test_other_strings_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="not an instant"):
        parse_instant_time(text)


def test_local_moment_becomes_utc() -> None:
    assert format_instant_time(NOON.astimezone(timezone(timedelta(hours=-7)))) == "20240531120000123"


def test_compaction_completes_as_commit() -> None:
    instant = Instant("20240531120000123", "compaction", InstantState.INFLIGHT, None, "x", 0)
    assert instant.is_write
    assert instant.completed_action == "commit"
