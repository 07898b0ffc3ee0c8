"""Lines of text files, counted from 1 as people and editors do: where a record is, and where a file is malformed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import islice

from rli.cli.files.given_file import GivenFile
from rli.cli.files.json_text import records_with_starts


def csv_line(file: GivenFile, row: int) -> int | None:
    """The line on which a record of a CSV file ends; the header is on line 1."""
    return next((line for line, _ in islice(_csv_records(file), row + 1, None)), None)


def malformed_csv_line(file: GivenFile) -> int | None:
    """The line of the first record with more or fewer fields than the header; None if there is none."""
    try:
        width: int | None = None
        for line, fields in _csv_records(file):
            if width is not None and len(fields) != width:
                return line
            width = len(fields)
    except (csv.Error, ValueError, OSError):
        # The file is no text.
        return None
    return None


def json_line(file: GivenFile, row: int) -> int | None:
    """The line on which a record of a JSON file begins."""
    text = json_text(file)
    start = next((start for _, start in islice(records_with_starts(json.JSONDecoder(), text), row, None)), None)
    return None if start is None else text.count("\n", 0, start) + 1


def malformed_json_line(file: GivenFile) -> int | None:
    """The line of the first thing that is no JSON; None if all of it is."""
    text = json_text(file)
    try:
        for _ in records_with_starts(json.JSONDecoder(), text):
            pass
    except json.JSONDecodeError as error:
        # What is missing at the end of a line is missing there, not on the next one.
        return text.count("\n", 0, len(text[: error.pos].rstrip())) + 1
    except (ValueError, RecursionError):
        return None
    return None


def json_text(file: GivenFile) -> str:
    """The text of a JSON file."""
    with file.open() as stream:
        return str(stream.read().decode("utf-8-sig"))


def _csv_records(file: GivenFile) -> Iterator[tuple[int, list[str]]]:
    """The records with their last lines, the header first."""
    with file.open() as stream:
        reader = csv.reader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""))
        yield from ((reader.line_num, fields) for fields in reader if fields)
