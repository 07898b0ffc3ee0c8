"""The manifest of a write: the files that the write is about to bring into the table. Their names hold its instant.

After a power cut, a file system without a journal may show the content of another folder in a work folder. The manifest there
may belong to another write, whose files must stay (P17).
"""

from __future__ import annotations

import posixpath
from typing import Final

from pydantic import TypeAdapter, ValidationError

from rli.errors import CorruptTableError
from rli.storage import Storage
from rli.view import paths
from rli.view.file_listing import files_written_at

_MANIFEST: Final = TypeAdapter(list[str])


def listed_files(storage: Storage, instant: str) -> list[str]:
    """The files of a manifest; none where there is no manifest."""
    manifest = storage.read_bytes(paths.manifest(instant))
    if manifest is None:
        return []
    if _is_cut_short(manifest):
        # A power cut has torn it: base files are known by their names, too.
        return files_written_at(storage, instant)
    try:
        return [path for path in _MANIFEST.validate_json(manifest) if instant in posixpath.basename(path)]
    except ValidationError as error:
        raise CorruptTableError(
            f"the list of base files of a dead write is damaged: file={paths.manifest(instant)}",
            remedy=(
                f"delete all base files whose name ends in _{instant}.parquet, then the folder "
                f"{paths.work_folder(instant)}"
            ),
        ) from error


def _is_cut_short(manifest: bytes) -> bool:
    written = manifest.rstrip(b"\0")
    return not written or (written.startswith(b"[") and not written.endswith(b"]"))
