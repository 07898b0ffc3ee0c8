"""A JSON file of records: its columns as Arrow reads them, its numbers as they are spelled, and subtrees kept as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as pa_json

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
        path: of the file.
        kept: the names, from the column on, of what is kept as text. A list on the way has no name.
        renames: whether names inside of columns are made simple; ``kept`` has the simple names then.
    """

    path: str
    kept: Sequence[Sequence[str]] = ()
    renames: bool = False
    _renamed: dict[tuple[str, ...], str] = field(default_factory=dict)

    def parse(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """The records; columns in ``types`` are read as these, the others as what they look like.

        Raises:
            InvalidInputError: two names inside of a column become one.
            ValueError: the file is malformed.
        """
        if not self.kept and not self.renames:
            return _read(self.path, types)
        lines = "\n".join(map(_text, self.records()))
        parse = pa_json.ParseOptions(explicit_schema=_schema(types))
        return pa_json.read_json(pa.BufferReader(lines.encode()), pa_json.ReadOptions(block_size=BLOCK_BYTES), parse)

    def records(self) -> Iterator[dict[str, Any]]:
        """The records as ``parse`` reads them, with numbers as the file spells them."""
        for record in _read_literals(self.path):
            # Columns are renamed later. Their names are known for all records then.
            yield {
                name: self._changed(value, (simple_name(name) if self.renames else name,))
                for name, value in record.items()
            }

    def _changed(self, value: Any, path: tuple[str, ...]) -> Any:
        if list(path) in self.kept:
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
                f"two names become one: file={self.path} column={below('.'.join(above), renamed)} names={[other, name]}; rename "
                "one in the file"
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


def _read(path: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    # Objects of a .json file may be spread over lines.
    is_free_form = path.removesuffix(".gz").lower().endswith(".json")
    parse = pa_json.ParseOptions(explicit_schema=_schema(types), newlines_in_values=is_free_form)
    read = pa_json.ReadOptions(block_size=BLOCK_BYTES)
    with pa.input_stream(path, compression="detect") as stream:
        if not is_free_form:
            return pa_json.read_json(stream, read_options=read, parse_options=parse)
        content = stream.read()
    if content.lstrip()[:1] == b"[":
        content = "\n".join(json.dumps(record) for record in json.loads(content)).encode()
    return pa_json.read_json(pa.BufferReader(content), read_options=read, parse_options=parse)


def _schema(types: Mapping[str, pa.DataType]) -> pa.Schema | None:
    return pa.schema(list(types.items())) if types else None


def _read_literals(path: str) -> Iterable[dict[str, Any]]:
    decoder = json.JSONDecoder(parse_int=Literal, parse_float=Literal, object_pairs_hook=_object)
    with pa.input_stream(path, compression="detect") as stream:
        text = stream.read().decode("utf-8-sig")
    start = _next(text, 0)
    if text[start : start + 1] == "[":
        yield from map(_require_record, decoder.decode(text[start:]))
        return
    while start < len(text):
        record, end = decoder.raw_decode(text, start)
        yield _require_record(record)
        start = _next(text, end)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an object has a name twice: names={[name for name, _ in pairs]}")
    return found


def _require_record(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a record is no object: {_text(value)[:100]}")  # noqa: TRY004  (of the file, not of a caller)
    return value


def _next(text: str, start: int) -> int:
    while start < len(text) and text[start] in " \t\r\n":
        start += 1
    return start
