"""The server-side scripts: each a file whose head states its keys, arguments, result, and what is atomic."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_INCARNATION: Final = "incarnation"


@dataclass(frozen=True, slots=True)
class Script:
    """A script, and the name by which a server that has seen it knows it.

    Attributes:
        source: the Lua text.
        sha: hexadecimal SHA-1 of the text.
    """

    source: str
    sha: str


def _load(name: str, *, behind: str | None = None) -> Script:
    """A script, behind another file whose functions it calls."""
    names = [name] if behind is None else [behind, name]
    source = "".join(files(__name__).joinpath(f"{each}.lua").read_text(encoding="utf-8") for each in names)
    # Redis names scripts by this hash; nothing is protected by it.
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


BEGIN_EPOCH: Final = _load("begin_epoch")
COMPARE_AND_SET: Final = _load("compare_and_set", behind=_INCARNATION)
CREATE_SEGMENT: Final = _load("create_segment", behind=_INCARNATION)
CREATE_INDEX: Final = _load("create_index")
DROP_SEGMENT: Final = _load("drop_segment")
GROW_SEGMENT: Final = _load("grow_segment")
LIST_CONTROL: Final = _load("list_control")
MARK_APPLIED: Final = _load("mark_applied", behind=_INCARNATION)
NOTE_SEGMENTS: Final = _load("note_segments", behind=_INCARNATION)
RAISE_FLOOR: Final = _load("raise_floor")
READ_CONTROL: Final = _load("read_control")
REMOVE_HEADER: Final = _load("remove_header")
REPLACE_HEADER: Final = _load("replace_header")
SWAP_BUCKETS: Final = _load("swap_buckets", behind=_INCARNATION)
UPGRADE_SHARD: Final = _load("upgrade_shard")
