"""Java's ``.properties`` files, as ``java.util.Properties`` loads and stores them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_CONTINUED: Final = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_ENTRY: Final = re.compile(r"(?P<key>(?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<other>.)|\Z)", re.DOTALL)

_CONTROL_NAMES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_CONTROL_ESCAPES: Final = {control: f"\\{name}" for name, control in _CONTROL_NAMES.items()}
_MARKED: Final = frozenset("\\=:#!")


def parse_properties(content: bytes) -> dict[str, str]:
    """Entries in the order of the file; of a repeated key the last value counts.

    Raises:
        ValueError: an escape is broken.
    """
    entries = {}
    for line in _logical_lines(content.decode("latin-1")):
        match = _ENTRY.fullmatch(line)
        if match is None:
            raise ValueError(f"line={line!r}")
        entries[_unescape(match["key"])] = _unescape(match["value"])
    return entries


def format_properties(entries: Mapping[str, str]) -> bytes:
    """One line for each entry, in their order; ASCII alone."""
    lines = (f"{_escape(key, all_blanks=True)}={_escape(value, all_blanks=False)}\n" for key, value in entries.items())
    return "".join(lines).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, those that end in a backslash joined to their next."""
    joined: str | None = None
    for line in _LINE_END.split(text):
        stripped = line.lstrip(_BLANKS)
        if joined is None and (not stripped or stripped[0] in "#!"):
            continue
        joined = (joined or "") + stripped
        if _CONTINUED.search(joined):
            joined = joined[:-1]
            continue
        yield joined
        joined = None
    if joined:
        yield joined


def _unescape(text: str) -> str:
    plain = _ESCAPE.sub(_unescaped, text)
    # Characters beyond the first 65,536 are stored as two escapes, one for each UTF-16 unit.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _unescaped(match: re.Match[str]) -> str:
    if match["code"]:
        return chr(int(match["code"], 16))
    other = match["other"] or ""
    if other == "u":
        raise ValueError(f"escape={match.string[match.start() : match.start() + 6]!r}")
    return _CONTROL_NAMES.get(other, other)


def _escape(text: str, *, all_blanks: bool) -> str:
    escaped = "".join(_escaped(character) for character in text)
    if all_blanks:
        return escaped.replace(" ", "\\ ")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _escaped(character: str) -> str:
    if character in _MARKED:
        return f"\\{character}"
    if character in _CONTROL_ESCAPES:
        return _CONTROL_ESCAPES[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04X}" for at in range(0, len(units), 2))
