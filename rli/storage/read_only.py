"""Storages that tables can be read from, and that rli does not write to."""

from __future__ import annotations

from typing import NoReturn

from rli.errors import UnsupportedTableError
from rli.storage.contract import Draft, FileChanges


class NoChanges(FileChanges):
    """Refuses every change: of the storage it is not known that a file can be created only if there is none.

    Every method raises ``UnsupportedTableError``.
    """

    def __init__(self, location: str) -> None:
        self._location = location

    def write(self, path: str, content: bytes) -> None:  # noqa: ARG002  (as in every method here)
        self._refuse()

    def create(self, path: str, content: bytes) -> bool:  # noqa: ARG002
        self._refuse()

    def draft(self, path: str, content: bytes) -> Draft:  # noqa: ARG002
        self._refuse()

    def publish(self, draft: Draft, target: str) -> bool:  # noqa: ARG002
        self._refuse()

    def replace(self, draft: Draft, target: str) -> None:  # noqa: ARG002
        self._refuse()

    def retract(self, draft: str) -> bool:  # noqa: ARG002
        self._refuse()

    def settle(self, draft: str) -> None:  # noqa: ARG002
        self._refuse()

    def move(self, source: str, target: str) -> None:  # noqa: ARG002
        self._refuse()

    def make_folder(self, path: str) -> None:  # noqa: ARG002
        self._refuse()

    def delete_file(self, path: str) -> None:  # noqa: ARG002
        self._refuse()

    def delete_folder(self, path: str) -> None:  # noqa: ARG002
        self._refuse()

    def delete_empty_folder(self, path: str) -> None:  # noqa: ARG002
        self._refuse()

    def is_within(self, folder: str, root: str) -> bool:  # noqa: ARG002
        return True

    def _refuse(self) -> NoReturn:
        raise UnsupportedTableError(
            f"rli only reads from this storage: location={self._location}",
            remedy=(
                "writers cannot be kept apart without conditional writes: use a local or mounted folder, s3://, gs://, "
                "az:// or abfss:// (docs/object-stores.md)"
            ),
        )
