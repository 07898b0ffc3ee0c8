"""Says plainly what a function was given in place of a frame, a session or a table."""

from __future__ import annotations

import os
from typing import TypeGuard, TypeVar

from pyspark.sql import DataFrame, SparkSession

from rli import Table
from rli.errors import InvalidInputError
from rli_spark.session.logs import follow_spark

Kind = TypeVar("Kind")

_CONNECT = "pyspark.sql.connect."
"""Begins the modules of Spark Connect, whose classes are not always those of Spark itself."""


def require_frame_and_table(df: object, table: object, *others: type) -> None:
    """Pass a frame and a table, or an object of other types in place of the table; rli's logs follow Spark's level from then on.

    Raises:
        InvalidInputError: an argument is something else; says what it is and what to give.
    """
    if isinstance(df, Table):
        raise InvalidInputError(
            f"the arguments are in the wrong order: first={_type(df)} second={_type(table)}",
            remedy="give the frame first, then the table",
        )
    _require_table(table, others)
    if not is_of_spark(df, DataFrame):
        raise InvalidInputError(
            f"the records are not a Spark data frame: type={_type(df)}",
            remedy=(
                "make one with spark.createDataFrame or spark.read, or write them without Spark: "
                "table.upsert(records), table.delete(keys)"
            ),
        )
    follow_spark(df.sparkSession)


def require_session_and_table(spark: object, table: object) -> None:
    """Pass a session and a table; rli's logs follow Spark's level from then on.

    Raises:
        InvalidInputError: an argument is something else; says what it is and what to give.
    """
    if isinstance(spark, Table):
        raise InvalidInputError(
            f"the arguments are in the wrong order: first={_type(spark)} second={_type(table)}",
            remedy="give the Spark session first, then the table",
        )
    _require_table(table, ())
    if not is_of_spark(spark, SparkSession):
        raise InvalidInputError(
            f"not a Spark session: type={_type(spark)}",
            remedy="give SparkSession.builder.getOrCreate(), or in a notebook spark",
        )
    follow_spark(spark)


def _require_table(table: object, others: tuple[type, ...]) -> None:
    if isinstance(table, (Table, *others)):
        return
    if isinstance(table, str | os.PathLike):
        raise InvalidInputError(
            f"the table is a path: table={os.fspath(table)!r}",
            remedy=f"open it first: rli.open_table({os.fspath(table)!r})",
        )
    raise InvalidInputError(
        f"not a table: type={_type(table)}", remedy="give what rli.open_table or rli.create_table returns"
    )


def is_of_spark(value: object, kind: type[Kind]) -> TypeGuard[Kind]:
    """Whether a value is of a type of Spark, or of the type of Spark Connect with that name."""
    return isinstance(value, kind) or (
        type(value).__module__.startswith(_CONNECT) and type(value).__name__ == kind.__name__
    )


def _type(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
