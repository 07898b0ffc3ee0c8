"""The control record of a checkpoint, version 1: a JSON object that lists the pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias
from uuid import uuid4

from pydantic import BaseModel, Field

from rli.errors import CorruptIndexError
from rli.index.record.log.checkpoint_page import PAGES, PageEntry
from rli.json_text import parse_json

_VERSION: Final = 1

_Number: TypeAlias = Annotated[int, Field(ge=0, lt=2**32)]


class Listing(BaseModel):
    """A checkpoint as its record has it; see ``Checkpoint`` and ``PageEntry``."""

    head: _Number
    groups: _Number
    lastOf: tuple[tuple[str, _Number, str], ...]  # noqa: N815  (as it is stored)
    anchor: tuple[_Number, str] | None
    pages: tuple[tuple[Annotated[str, Field(pattern=f"^{PAGES}")], _Number, _Number, str, str], ...]


def parse_listing(content: bytes) -> Listing | None:
    """The content of a control record; None if it is damaged.

    Raises:
        CorruptIndexError: a newer version of rli wrote it.
    """
    try:
        fields = parse_json(content)
        if fields["version"] != _VERSION:
            raise CorruptIndexError(
                f"a checkpoint of the index's commit log has another version: version={fields['version']}",
                remedy="use the version of rli that wrote it",
            )
        return Listing.model_validate(fields)
    except (ValueError, KeyError, TypeError):
        return None


def listing_json(
    head: int,
    group_count: int,
    last_of: Sequence[tuple[str, int, str]],
    anchor: tuple[int, str] | None,
    pages: Sequence[PageEntry],
) -> bytes:
    """The control record of a checkpoint; the attributes of ``Checkpoint``."""
    fields = {
        "version": _VERSION,
        "head": head,
        "groups": group_count,
        "lastOf": last_of,
        "anchor": anchor,
        "pages": [(p.name, p.first_sequence, p.first_group, p.least, p.greatest) for p in pages],
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def intent_json(shown: bytes) -> bytes:
    """A checkpoint that says what one says that is there, and that another one is being written, by a unique token."""
    fields = json.loads(shown or listing_json(0, 0, (), None, ()))
    return json.dumps({**fields, "writing": uuid4().hex}, separators=(",", ":")).encode()
