"""A caller's condition on changes of stored records, over arriving and stored values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.errors import InvalidInputError
from rli.filters.filter import Filter

_SOURCE: Final = "source."
_TARGET: Final = "target."


@dataclass(frozen=True, slots=True)
class Condition:
    """Decides which arriving records replace or delete the stored records of their keys. Picklable.

    Attributes:
        filter: over columns ``source.NAME`` and ``target.NAME``.
        source: the columns of arriving records that it reads.
        target: those of stored records.
    """

    filter: Filter
    source: tuple[str, ...]
    target: tuple[str, ...]

    @classmethod
    def of(cls, text: str, source: pa.Schema, target: pa.Schema) -> Self:
        """The condition of a text, as filters take it.

        Args:
            text: such as ``source.price > target.price``.
            source: columns of arriving records.
            target: columns of stored records.

        Raises:
            InvalidInputError: it is no text, or is not understood.
            SchemaError: it compares values that cannot be compared.
        """
        if not isinstance(text, str):
            raise InvalidInputError(
                f"a condition is a string: when={text!r}", remedy='give one such as when="source.price > target.price"'
            )
        named = [field.with_name(f"{_SOURCE}{field.name}") for field in source]
        named += [field.with_name(f"{_TARGET}{field.name}") for field in target]
        found = Filter.of(text, pa.schema(named))
        if found is None:
            raise AssertionError(text)
        # Constants alone are computed for as many rows as a column has.
        names = dict.fromkeys(column[0] for column in found.columns) or dict.fromkeys([named[0].name])
        return cls(found, _below(_SOURCE, names), _below(_TARGET, names))

    def passes(self, source: pa.Table, target: pa.Table) -> NDArray[np.bool_]:
        """Where the condition is true, and not null, shape (n,).

        Args:
            source: arriving records.
            target: the stored record of each.

        Raises:
            InvalidInputError: it cannot be computed for a record.
        """
        names = [*(f"{_SOURCE}{name}" for name in self.source), *(f"{_TARGET}{name}" for name in self.target)]
        columns = [*source.select(self.source).columns, *target.select(self.target).columns]
        found: NDArray[np.bool_] = (
            self.filter.mask(pa.table(columns, names=names)).combine_chunks().to_numpy(zero_copy_only=False)
        )
        return found


def _below(prefix: str, names: dict[str, None]) -> tuple[str, ...]:
    return tuple(name.removeprefix(prefix) for name in names if name.startswith(prefix))
