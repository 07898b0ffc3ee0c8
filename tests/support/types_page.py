"""The tables of the page of types, as data: what the page says is what tests write and read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "types.md"
_NAMES: Final = {"pa": pa, "UTC": UTC, "date": date, "datetime": datetime, "Decimal": Decimal}


@dataclass(frozen=True, slots=True)
class HeldType:
    """A line of the table of types that a table holds.

    Attributes:
        text: the type, as the page spells it.
        kind: the type.
        values: the examples.
        stored: the type of the column.
        returned: the values that come back.
    """

    text: str
    kind: pa.DataType
    values: list[Any]
    stored: pa.DataType
    returned: list[Any]

    def column(self) -> pa.Array:
        """The examples, and a null."""
        if pa.types.is_dictionary(self.kind):
            return pa.array([*self.values, None]).dictionary_encode()
        return pa.array([*self.values, None], self.kind)


def held_types() -> list[HeldType]:
    """The types that a table holds; those that this release of pyarrow does not know are left out."""
    return [_held(cells) for cells in _lines("Types that a table holds") if _is_known(cells[0])]


def refused_types() -> list[pa.DataType]:
    """The types that are refused."""
    return [_code(cells[0]) for cells in _lines("Types that are refused") if _is_known(cells[0])]


def _held(cells: list[str]) -> HeldType:
    values = _code(cells[1])
    returned = values if cells[3].startswith("the same") else _code(cells[3])
    return HeldType(cells[0].strip("`"), _code(cells[0]), values, _code(cells[2]), returned)


def _lines(heading: str) -> list[list[str]]:
    section = _PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (`.*) \|$", section, re.MULTILINE)
    return [line.split(" | ") for line in lines]


def _is_known(text: str) -> bool:
    return all(hasattr(pa, name) for name in re.findall(r"pa\.(\w+)", text))


def _code(text: str) -> Any:
    return eval(text.strip("`"), dict(_NAMES))  # noqa: S307  (the project's own documentation)
