"""Options of the commands that write records of files."""

from __future__ import annotations

from typing import Annotated

import typer

from rli.cli.files.input import FileKind
from rli.model import MissingColumns, OnDuplicates, OnPartitionChange

FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Records: .jsonl, .ndjson, .json, .csv (each also .gz), .parquet or .arrow; - for standard input. "
        "Each file is a separate batch and commit, in the given order.",
        show_default=False,
    ),
]
RenameOption = Annotated[bool, typer.Option("--rename-columns", help="Write 'Domain name' as domain_name, and so on.")]
FormatOption = Annotated[
    FileKind | None,
    typer.Option(
        "--format",
        help="Format of the files. Default: by the ending of a file's name, or by the first bytes of standard input: "
        "text that is no JSON is CSV.",
        show_default=False,
    ),
]
OnDuplicatesOption = Annotated[
    OnDuplicates,
    typer.Option(
        help="If several records of a file have one key. skip: one of them counts, the others are reported as duplicates. "
        "fail: an error."
    ),
]
ColumnTypeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column-type",
        metavar="COLUMN=TYPE",
        help="Type of a column of a text file: string, boolean, int, bigint, double, decimal(DIGITS,SCALE), date or "
        "timestamp. Repeat for several. zip=string keeps 02134; ts=bigint makes a stored column of int wider; payload=string "
        "and event.payload=string keep whatever JSON has there as text.",
        show_default=False,
    ),
]
OnPartitionChangeOption = Annotated[
    OnPartitionChange | None,
    typer.Option(
        help="How to treat a known key in another partition. Default: the table's setting.", show_default=False
    ),
]
MissingOption = Annotated[
    MissingColumns,
    typer.Option(
        help="Columns of the table that a file lacks. fail: an error. null: they become null. keep: records that are "
        "updated or moved keep their stored values."
    ),
]
