"""Which index of a table this process uses: the one that the table names, or one that the caller has in its place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rli.urls import StoredUrl, has_secrets


@dataclass(frozen=True, slots=True)
class IndexBinding:
    """The index that a process uses of a table. Picklable.

    Attributes:
        url: opens the index: a ``StoredUrl`` if the table names it, and not the caller. It may hold a password.
        in_place_of: where the table's settings have the index, if the caller has another one; None for the table's own.
    """

    url: str = field(repr=False)
    in_place_of: str | None = field(default=None, repr=False)

    @property
    def is_callers(self) -> bool:
        """Whether the caller uses another index than the table names."""
        return self.in_place_of is not None

    @property
    def stores_password(self) -> bool:
        """Whether the table keeps a password of the index, as those of earlier versions do."""
        return isinstance(self.url, StoredUrl) and has_secrets(self.url)

    def adopted(self) -> IndexBinding:
        """The same index, once the table names it."""
        return replace(self, in_place_of=None)
