"""Tests run over both types of table from one definition: their cases are named alike but for the word ``logs`` or ``bases``."""

from __future__ import annotations

from typing import Final

import pytest

from rli import TableType

BOTH_TYPES: Final = {"bases": TableType.COPY_ON_WRITE, "logs": TableType.MERGE_ON_READ}
"""Names for parameters: the type."""

of_both_types = pytest.mark.parametrize("table_type", BOTH_TYPES.values(), ids=BOTH_TYPES.keys())
