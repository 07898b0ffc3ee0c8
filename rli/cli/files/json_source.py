"""A JSON file of records: its columns as Arrow reads them, its numbers as they are spelled, and subtrees kept as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as pa_json

from rli.cli.files.given_file import GivenFile
from rli.cli.files.json_text import records_with_starts
from rli.cli.files.lines import json_text
from rli.errors import InvalidInputError
from rli.hudi.column_names import below, simple_name

BLOCK_BYTES: Final = 16 << 20
"""The longest record in a text file."""


class Literal(str):
    """A number as the file spells it."""

    __slots__ = ()


@dataclass(slots=True)
class JsonSource:
    """A file, and how its records change before they become columns.

    Attributes:
        file: where the records are.
        kept: the names, from the column on, of what is kept as text. A list on the way has no name.
        met: which of ``kept`` a record had, known once all records were read.
        renames: whether names inside of columns are made simple; ``kept`` has the simple names then.
    """

    file: GivenFile
    kept: Sequence[Sequence[str]] = ()
    renames: bool = False
    met: list[Sequence[str]] = field(default_factory=list)
    _renamed: dict[tuple[str, ...], str] = field(default_factory=dict)

    def parse(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """The records; columns in ``types`` are read as these, the others as what they look like.

        Raises:
            InvalidInputError: two names inside of a column become one.
            ValueError: the file is malformed.
        """
        if not self.kept and not self.renames:
            return _read(self.file, types)
        lines = "\n".join(map(_text, self.records()))
        parse = pa_json.ParseOptions(explicit_schema=_schema(types))
        return pa_json.read_json(pa.BufferReader(lines.encode()), pa_json.ReadOptions(block_size=BLOCK_BYTES), parse)

    def records(self) -> Iterator[dict[str, Any]]:
        """The records as ``parse`` reads them, with numbers as the file spells them."""
        for record in _read_literals(self.file):
            # Columns are renamed later. Their names are known for all records then.
            yield {
                name: self._changed(value, (simple_name(name) if self.renames else name,))
                for name, value in record.items()
            }

    def _changed(self, value: Any, path: tuple[str, ...]) -> Any:
        if list(path) in self.kept:
            if list(path) not in self.met:
                self.met.append(list(path))
            return value if value is None or type(value) is str else _text(value)
        if isinstance(value, list):
            return [self._changed(part, path) for part in value]
        if isinstance(value, dict):
            names = {name: self._name(name, path) for name in value}
            return {names[name]: self._changed(part, (*path, names[name])) for name, part in value.items()}
        return value

    def _name(self, name: str, above: tuple[str, ...]) -> str:
        if not self.renames:
            return name
        renamed = simple_name(name)
        other = self._renamed.setdefault((*above, renamed), name)
        if other != name:
            raise InvalidInputError(
                f"two names become one: {self.file.place(None)} column={below('.'.join(above), renamed)} "
                f"names={[other, name]}",
                remedy="rename one in the file",
            )
        return renamed


def literals_in(value: object) -> Iterator[Literal]:
    """The numbers in a value of a record, at any depth."""
    if isinstance(value, Literal):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from literals_in(part)


def _text(value: Any) -> str:
    """A value as JSON, with numbers as the file spells them."""
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(name)}:{_text(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _read(file: GivenFile, types: Mapping[str, pa.DataType]) -> pa.Table:
    # Objects of a .json file, and of standard input, may be spread over lines.
    is_free_form = file.ending not in {".jsonl", ".ndjson"}
    parse = pa_json.ParseOptions(explicit_schema=_schema(types), newlines_in_values=is_free_form)
    read = pa_json.ReadOptions(block_size=BLOCK_BYTES)
    with file.open() as stream:
        if not is_free_form:
            return pa_json.read_json(stream, read_options=read, parse_options=parse)
        content = stream.read()
    if content.lstrip()[:1] == b"[":
        content = "\n".join(json.dumps(record) for record in json.loads(content)).encode()
    return pa_json.read_json(pa.BufferReader(content), read_options=read, parse_options=parse)


def _schema(types: Mapping[str, pa.DataType]) -> pa.Schema | None:
    return pa.schema(list(types.items())) if types else None


def _read_literals(file: GivenFile) -> Iterable[dict[str, Any]]:
    decoder = json.JSONDecoder(parse_int=Literal, parse_float=Literal, object_pairs_hook=_object)
    for record, _ in records_with_starts(decoder, json_text(file)):
        yield _require_record(record)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an object has a name twice: names={[name for name, _ in pairs]}")
    return found


def _require_record(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a record is no object: {_text(value)[:100]}")  # noqa: TRY004  (of the file, not of a caller)
    return value
