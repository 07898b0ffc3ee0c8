"""The language of filters and value expressions, as in ``rli read --where``: SQL's, of one record at a time.

``city = 'Oslo' and (fare > 10 or tip is not null)``; ``lower(city) like 'os%'``; ``case when fare > 10 then fare * 2 else
fare end``. The same text has the same meaning in plain Python and in Spark: pyarrow computes it in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from rli.errors import InvalidInputError
from rli.filters.binding import Binding
from rli.filters.predicates import Predicate
from rli.filters.syntax import Syntax, parsed
from rli.filters.values import Value

Bound = TypeVar("Bound")


def parse_where(text: str, schema: pa.Schema) -> Predicate:
    """The filter that a text describes.

    Args:
        text: comparisons (``==``, ``=``, ``!=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``), ``in``, ``between``, ``like`` and
            ``is null``, with ``not`` or without, joined with ``and``, ``or``, ``not`` and brackets, of columns, constants
            and what ``parse_value`` takes. Strings stand in single or double quotes; one that is compared with a date or
            time column is read as one. A column whose name is a keyword is written ``col("from")`` or in backticks.
        schema: of the table.

    Raises:
        InvalidInputError: the text is not understood, names an unknown column, or a constant does not fit its column.
    """
    return _bound(text, Binding(schema).predicate, "filter", "city = 'Oslo' and fare > 10")


def parse_value(text: str, schema: pa.Schema) -> Value:
    """The value that a text describes: columns, constants, ``+ - * / % ||``, ``case``, ``cast(x as type)`` and functions.

    Args:
        text: of the value; a condition is one, too: true, false or null.
        schema: of the records.

    Raises:
        InvalidInputError: as ``parse_where``; or values of these types are not computed.
    """
    return _bound(text, Binding(schema).value, "expression", "fare * 2")


def _bound(text: str, bind: Callable[[Syntax], Bound], what: str, example: str) -> Bound:
    try:
        return bind(parsed(text))
    except (ValueError, RecursionError) as error:
        given = "where" if what == "filter" else what
        raise InvalidInputError(
            f"the {what} is not understood: {given}={text!r} ({error})", remedy=f"write it as in: {example}"
        ) from error
