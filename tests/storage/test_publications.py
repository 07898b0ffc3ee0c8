"""Names that are given in an object store: a process that is paused anywhere is fenced off (P22)."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError

from rli import CorruptTableError, UnsupportedTableError
from rli.storage import Draft, Storage
from tests.support.object_store import ObjectStore
from tests.support.requests import answer_lost, at_requests

DRAFT, TARGET, CONTENT = "work/commit", "timeline/1.commit", b"content"

Call = Callable[[], object]


@pytest.fixture
def storage(object_store: ObjectStore) -> Storage:
    return Storage(f"s3://{object_store.new_bucket()}/t", object_store.options)


@pytest.fixture
def successor(storage: Storage) -> Storage:
    """The same folder, opened by another process."""
    return Storage(storage.location, storage.options)


def paused_before(number: int, call: Call, meanwhile: Call) -> bool:
    """Do something before a call sends its n-th request; whether it sends so many."""
    sent = count(1)

    def before(_name: str) -> None:
        if next(sent) == number:
            meanwhile()

    with at_requests(before), suppress(FileNotFoundError):
        call()
    return next(sent) > number


def published(storage: Storage, draft: Draft) -> bool | None:
    """What a publisher reports; None if it was told that its draft was taken back."""
    try:
        return storage.publish(draft, TARGET)
    except FileNotFoundError:
        return None


@pytest.mark.invariant("P22")
@pytest.mark.parametrize("ends", ["it stays", "it is undone"])
def test_paused_publisher_publishes_once_or_never(storage: Storage, successor: Storage, ends: str) -> None:
    """And it does not publish once more what a rollback has undone since, or an archive has taken away."""
    outcomes = []
    for number in count(1):
        draft = storage.draft(DRAFT, CONTENT)
        reported: list[bool | None] = []
        stands: list[bool] = []

        def take_over() -> None:
            successor.settle(DRAFT)
            stands.append(successor.exists(TARGET))  # noqa: B023  (called in this round)
            successor.delete_files([DRAFT])
            if ends == "it is undone":
                successor.delete_files([TARGET])

        was_paused = paused_before(number, lambda: reported.append(published(storage, draft)), take_over)  # noqa: B023
        if not was_paused:
            break
        assert reported == [True if stands[0] else None]
        assert successor.exists(TARGET) == (stands[0] and ends == "it stays")
        outcomes.append(stands[0])
        successor.delete_files([TARGET])
        assert successor.list_files(recursive=True) == []
    # There is one request by which it is decided.
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


@pytest.mark.parametrize("is_decided", [False, True])
def test_paused_successor_spares_its_own_successor(storage: Storage, successor: Storage, *, is_decided: bool) -> None:
    """Two take over one after the other; the first one wakes up when the second has undone the publication."""
    for number in count(1):
        draft = storage.draft(DRAFT, CONTENT)
        if is_decided:
            die_before_the_copy(storage, draft)

        def take_over() -> None:
            successor.settle(DRAFT)
            assert successor.exists(TARGET) == is_decided
            successor.delete_files([DRAFT])
            successor.delete_files([TARGET])

        was_paused = paused_before(number, lambda: storage.settle(DRAFT), take_over)
        if not was_paused:
            break
        assert successor.list_files(recursive=True) == []


@pytest.mark.invariant("P37")
def test_paused_replacement_spares_later_replacement(storage: Storage, successor: Storage) -> None:
    for number in count(1):
        successor.write_bytes(TARGET, b"old")
        draft = storage.draft(DRAFT, CONTENT)
        seen: list[bytes | None] = []

        def take_over() -> None:
            successor.settle(DRAFT)
            seen.append(successor.read_bytes(TARGET))  # noqa: B023  (called in this round)
            successor.delete_files([DRAFT])
            successor.write_bytes(TARGET, b"later")

        if not paused_before(number, lambda: storage.replace(draft, TARGET), take_over):  # noqa: B023
            break
        assert seen[0] in {b"old", CONTENT}
        assert successor.read_bytes(TARGET) == b"later"
    assert number > 2


def die_before_the_copy(storage: Storage, draft: Draft) -> None:
    def before(name: str) -> None:
        if name == "copy":
            raise InterruptedError

    with at_requests(before), pytest.raises(InterruptedError):
        published(storage, draft)


@pytest.mark.invariant("P22")
def test_decided_publication_is_finished(storage: Storage, successor: Storage) -> None:
    die_before_the_copy(storage, storage.draft(DRAFT, CONTENT))
    assert not storage.retract(DRAFT)
    assert not successor.exists(TARGET)
    successor.settle(DRAFT)
    assert successor.read_bytes(TARGET) == CONTENT


def test_write_recognises_itself_after_lost_answer(storage: Storage, successor: Storage) -> None:
    storage.create("first", b"")
    with answer_lost(1) as sent:
        assert storage.create("f", b"")
        assert not storage.create("f", b"")
    assert len(sent) == 3
    assert not successor.create("f", b"")


def test_lost_answer_publishes_draft_once(storage: Storage) -> None:
    storage.create("first", b"")
    for number in count(1):
        with answer_lost(number) as sent:
            assert storage.publish(storage.draft(DRAFT, CONTENT), TARGET)
        assert storage.read_bytes(TARGET) == CONTENT
        storage.delete_folder("work")
        storage.delete_files([TARGET])
        if len(sent) < number:
            break


def test_late_draft_request_has_no_effect(storage: Storage, successor: Storage) -> None:
    """The request was given up; it arrives when another attempt was made, taken over and tidied up."""
    storage.create("first", b"")
    late: list[Call] = []
    put = obstore.put

    def delayed(*arguments: Any, **named: Any) -> Any:
        if len(late) < 2:
            late.append(lambda: put(*arguments, **named))
            raise GenericError("no answer")
        return put(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(obstore, "put", delayed)
        draft = storage.draft(DRAFT, CONTENT)
    successor.settle(DRAFT)
    for arrives in late:
        arrives()
    assert published(storage, draft) is None
    assert not storage.exists(TARGET)


@pytest.mark.parametrize("condition", ["create", "update"])
def test_unconditional_store_is_refused_for_writing(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    put = obstore.put

    def heedless(*arguments: Any, mode: Any = None, **named: Any) -> Any:
        is_ignored = mode == "create" if condition == "create" else isinstance(mode, dict)
        return put(*arguments, mode=None if is_ignored else mode, **named)

    monkeypatch.setattr(obstore, "put", heedless)
    with pytest.raises(UnsupportedTableError, match="only reads from this object store"):
        storage.create("f", b"")
    with pytest.raises(UnsupportedTableError, match="only reads from this object store"):
        storage.draft(DRAFT, CONTENT)
    assert storage.list_files(recursive=True) == []


@pytest.mark.parametrize(
    "decision",
    [
        {"token": "0" * 32, "target": "other/victim"},
        {"token": "0" * 32, "target": "tt/victim"},
        {"token": "0" * 32, "target": "t/../other/victim"},
        {"token": "0" * 32, "target": "t//victim"},
        {"token": "0" * 32, "target": 1},
        {"token": "../../../other/source", "target": "t/victim"},
        {"token": 1, "target": "t/victim"},
        {"target": "t/victim"},
        [],
    ],
)
def test_forged_decision_stays_inside_table(storage: Storage, object_store: ObjectStore, decision: object) -> None:
    client = object_store.client(storage.root.partition("/")[0])
    outside = {"other/victim": b"precious", "tt/victim": b"precious", "other/source": b"source"}
    for name, precious in outside.items():
        obstore.put(client, name, precious)
    content = {**decision, "is_retracted": False} if isinstance(decision, dict) else decision
    storage.write_bytes(DRAFT, json.dumps(content).encode())
    storage.write_bytes(f"work/drafts/commit.{'0' * 32}", b"forged")
    with pytest.raises(CorruptTableError, match="decision about a draft"):
        storage.settle(DRAFT)
    assert {name: bytes(obstore.get(client, name).bytes()) for name in outside} == outside
