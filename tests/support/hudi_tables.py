"""Real tables, written by Apache Hudi: tests/data/hudi-tables (see the README there)."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

TABLES: Final = Path(__file__).parent.parent / "data" / "hudi-tables"

_EXTRAS_OF_MACOS: Final = "__MACOSX/"


def hudi_table_names(pattern: str = "**/*") -> list[str]:
    """Names of the tables that match a glob pattern, such as ``sample_table/cow/v6_*``; ordered."""
    return sorted(str(path.relative_to(TABLES).with_suffix("")) for path in TABLES.glob(f"{pattern}.zip"))


def unzip_hudi_table(name: str, folder: Path) -> Path:
    """Unpack one table below a folder.

    Args:
        name: as ``hudi_table_names`` gives it, such as ``sample_table/cow/v6_nonpartitioned``.
        folder: where the table's own folder is made.

    Returns:
        The table's folder.
    """
    with zipfile.ZipFile(TABLES / f"{name}.zip") as archive:
        members = [member for member in archive.namelist() if not member.startswith(_EXTRAS_OF_MACOS)]
        archive.extractall(folder, members)
    (properties,) = (
        path for path in folder.rglob(".hoodie/hoodie.properties") if path.parent.parent.name != "metadata"
    )
    return properties.parent.parent
