"""Giving a draft its name in an object store, where there are no links (docs/protocol.md, P22).

A draft is two objects: its content, under a name that nobody else uses, and a *decision* at the draft's path. The decision
is open first. Put-if-unchanged turns it, once, into "published as …" or into "retracted". Only then is anything done
about it: who publishes copies the content to its name, who retracts deletes it. Why nobody who was paused in between, for
however long, can still do harm:

1. Both need a decision that is open and is the one that they read. It was made once, and none like it is made again: it
   holds a random token. So of two who decide, one loses.
2. A publication that is decided takes place. Its publisher copies the content, or died; then the next holder of the
   lease does, before anything else.
3. A copy needs the content. It is deleted once the name is given, so who wakes up before the copy finds nothing to
   copy, even if the named object has been deleted since (rolled back, archived).

Each attempt to make a draft uses another token: a request that arrives after its sender has given it up belongs to no
draft that anybody knows.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

import obstore

from rli.errors import CorruptTableError
from rli.json_text import parse_json
from rli.storage.conditional_writes import ConditionalWrites, until_answered
from rli.storage.contract import Draft
from rli.storage.object_deletions import delete_objects
from rli.storage.object_errors import as_os_errors

if TYPE_CHECKING:
    from obstore import UpdateVersion

    from rli.storage.buckets import ObjectStores

_FORMAT: Final = 1
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_STEPS_ASIDE: Final = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class _Decision:
    """What is decided about a draft.

    Attributes:
        token: of the draft.
        target: the key under which it is published; None if that is not decided.
        is_retracted: whether it was taken back.
    """

    token: str
    target: str | None = None
    is_retracted: bool = False

    def to_json(self) -> bytes:
        return json.dumps({"format": _FORMAT, **asdict(self)}).encode()

    @classmethod
    def from_json(cls, content: bytes, path: str) -> _Decision:
        try:
            found = parse_json(content)
            decision = cls(found["token"], found["target"], found["is_retracted"])
            if _TOKEN.fullmatch(decision.token) and isinstance(decision.target, str | None):
                return decision
            problem = "its token or its target is missing"
        except (ValueError, TypeError, KeyError) as error:
            problem = f"{type(error).__name__}: {error}"
        raise CorruptTableError(
            f"a decision about a draft is damaged ({problem}): object={path}",
            remedy=(
                "no version of rli writes such an object: find out who changes the table's folder, then remove the "
                "object"
            ),
        )


class Publications:
    """Drafts of one table. All paths are keys.

    Args:
        stores: the clients of the bucket.
        writes: the conditional writes of the table.
        folder: of the table; a decision that names an object elsewhere is refused.
    """

    def __init__(self, stores: ObjectStores, writes: ConditionalWrites, folder: str) -> None:
        self._folder = f"{folder}/" if folder else ""
        self._store = stores.store
        self._once = stores.once
        self._writes = writes

    def draft(self, path: str, content: bytes) -> Draft:
        """Write a draft; there is none at the path."""
        self._writes.require()
        tokens: set[str] = set()
        return Draft(path, until_answered(lambda: self._draft(path, content, tokens)))

    def publish(self, draft: Draft, target: str) -> bool:
        """Give a draft its name; False if there is an object of that name.

        Raises:
            FileNotFoundError: the draft was retracted.
        """
        tried: set[str] = set()
        decision = until_answered(lambda: self._decide(draft, target, tried))
        if decision is not None:
            self._carry_out(draft.path, decision)
        return decision is not None

    def replace(self, draft: Draft, target: str) -> None:
        """Give a draft its name in place of the object of that name; raises as ``publish``."""
        decision = until_answered(lambda: self._decide(draft, target, set(), replaces=True))
        if decision is not None:
            self._carry_out(draft.path, decision)

    def retract(self, path: str) -> bool:
        """Retract a draft unless its publication is decided; whether it is gone."""
        return until_answered(lambda: self._retract(path)) is None

    def settle(self, path: str) -> None:
        """Retract a draft, or carry its publication out."""
        decision = until_answered(lambda: self._retract(path))
        if decision is not None:
            self._carry_out(path, decision)

    def _draft(self, path: str, content: bytes, tokens: set[str]) -> str:
        """One attempt; the token of the draft that is there then."""
        decision = self._read(path)[0]
        if decision is not None and decision.token in tokens:
            return decision.token
        token = uuid4().hex
        with as_os_errors(path):
            obstore.put(self._once, _content_path(path, token), content)
        tokens.add(token)
        if not self._writes.create_once(path, _Decision(token).to_json(), token):
            raise OSError(f"there is a draft already: path={path}")
        return token

    def _decide(self, draft: Draft, target: str, tried: set[str], *, replaces: bool = False) -> _Decision | None:
        """One attempt to decide for a publication; None if there is an object of that name."""
        decision, version = self._read(draft.path)
        if decision is not None and decision.token == draft.version and decision.target is not None:
            return decision
        taken = not replaces and self._exists(target)
        if decision is None or decision.token != draft.version or decision.is_retracted:
            if target in tried and taken:
                # An earlier attempt did decide, and somebody has carried it out and tidied up.
                return _Decision(draft.version, target)
            raise FileNotFoundError(draft.path)
        if taken:
            return None
        tried.add(target)
        decided = replace(decision, target=target)
        if self._writes.replace(draft.path, decided.to_json(), version):
            return decided
        return self._decide(draft, target, tried, replaces=replaces)

    def _retract(self, path: str) -> _Decision | None:
        """One attempt to retract a draft; what is decided instead, None if it is gone."""
        decision, version = self._read(path)
        if decision is None or decision.target is not None:
            return decision
        retracted = replace(decision, is_retracted=True)
        if not decision.is_retracted and not self._writes.replace(path, retracted.to_json(), version):
            return self._retract(path)
        delete_objects(self._store, [_content_path(path, decision.token)])
        delete_objects(self._store, [path])
        return None

    def _carry_out(self, path: str, decision: _Decision) -> None:
        """Copy a draft to the name that is decided; the decision stays."""
        content, target = _content_path(path, decision.token), decision.target or ""
        if not target.startswith(self._folder) or not _STEPS_ASIDE.isdisjoint(target.split("/")):
            raise CorruptTableError(
                f"a decision about a draft leads out of the table's folder: object={path} target={target!r}",
                remedy=(
                    "no version of rli writes such an object: find out who changes the table's folder, then remove the "
                    "object"
                ),
            )
        with as_os_errors(path):
            try:
                obstore.copy(self._store, content, target)
            except FileNotFoundError:
                # Somebody else has done it.
                return
        delete_objects(self._store, [content])

    def _read(self, path: str) -> tuple[_Decision | None, UpdateVersion]:
        found = self._writes.read(path)
        if found is None:
            return None, {}
        return _Decision.from_json(found.content, path), cast("UpdateVersion", found.version)

    def _exists(self, path: str) -> bool:
        with as_os_errors(path):
            try:
                obstore.head(self._store, path)
            except FileNotFoundError:
                return False
            return True


def _content_path(path: str, token: str) -> str:
    folder, name = posixpath.split(path)
    return f"{folder}/drafts/{name}.{token}"
