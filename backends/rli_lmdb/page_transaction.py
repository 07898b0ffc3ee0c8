"""Read transactions of a process that LMDB's writers do not know of: the file's pages, each proven before it is used.

A writer that sees no reader may use the pages of a state again, though not before the second next state is committed: it
takes pages that an earlier transaction than its predecessor has freed (``mdb_page_alloc``). So a page is copied, and the
copy is used if at most one later state was committed by then. LMDB's own code would follow a page that changes under it, and
end the process.

A transaction has as many of the methods of ``lmdb.Transaction`` as reads need. ``data_file`` describes the layout.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from rli_lmdb.data_file import DataFile, Tree

_META_AT: Final = 16
_META: Final = struct.Struct("<IIQQ48s48sQQ")
_PAGE_HEADER: Final = struct.Struct("<QHHHH")
_NODE: Final = struct.Struct("<IHH")
_BRANCH: Final = 0x01
_LEAF2: Final = 0x20
_IS_LARGE: Final = 0x01
_IS_TREE: Final = 0x02
_HAS_DUPLICATES: Final = 0x04
_MOST_LEVELS: Final = 32
_MOST_PAGES_KEPT: Final = 4096
"""Copies that a transaction keeps: 16 MiB."""


class OvertakenError(Exception):
    """Other processes committed during a read that nothing protects. Ends the attempt; no caller sees it."""


@dataclass(frozen=True, slots=True)
class NamedDatabase:
    """A database of the environment, by its name."""

    name: bytes


@dataclass(frozen=True, slots=True)
class CommittedState:
    """The state of the environment after a commit.

    Attributes:
        number: of the transaction.
        main: the tree of all databases.
        last_page: number of the last page in use.
    """

    number: int
    main: Tree
    last_page: int

    @classmethod
    def newest(cls, file: DataFile) -> Self:
        """The last state that was committed."""
        while True:
            number = newest_number(file)
            at = (number & 1) * file.page_size + _META_AT
            content = file.content(at, _META.size)
            *_, main, last_page, found = _META.unpack(content)
            # A writer may be half way through it.
            if found == number and content == file.content(at, _META.size):
                return cls(number, Tree.of(main), last_page)


def newest_number(file: DataFile) -> int:
    """Number of the last transaction that was committed."""
    at = _META_AT + _META.size - 8
    return max(int.from_bytes(file.content(start + at, 8), "little") for start in (0, file.page_size))


class PageTransaction:
    """Reads one state of the environment.

    Every method raises ``OvertakenError`` once that state may be gone, and ``IndexError``, ``ValueError`` or
    ``struct.error`` for pages that are damaged.
    """

    def __init__(self, file: DataFile, state: CommittedState) -> None:
        self._file = file
        self._state = state
        self._trees: dict[bytes, Tree] = {}
        self._pages: dict[int, _Page] = {}

    def get(self, key: bytes, default: bytes | None = None, db: NamedDatabase | None = None) -> bytes | None:
        """The value of a key."""
        cursor = self.cursor(db)
        return cursor.value() if cursor.set_key(key) else default

    def cursor(self, db: NamedDatabase | None = None) -> PageCursor:
        """A cursor on a database; without one, on the names of all databases."""
        return PageCursor(self, self._tree(db))

    def stat(self, db: NamedDatabase) -> dict[str, int]:
        """How many entries a database holds."""
        return {"entries": self._tree(db).entries}

    def require_current(self) -> None:
        """Raise ``OvertakenError`` if a writer may have begun to use pages of this state again."""
        if newest_number(self._file) > self._state.number + 1:
            raise OvertakenError

    def page(self, number: int) -> _Page:
        """A page of this state."""
        found = self._pages.get(number)
        if found is None:
            size = self._file.page_size
            content = self._file.content(number * size, size)
            self.require_current()
            if len(self._pages) >= _MOST_PAGES_KEPT:
                self._pages.clear()
            found = self._pages[number] = _Page(content)
        return found

    def large_value(self, page: int, size: int) -> bytes:
        """A value that has pages of its own."""
        content = self._file.content(page * self._file.page_size + _PAGE_HEADER.size, size)
        self.require_current()
        return content

    def _tree(self, db: NamedDatabase | None) -> Tree:
        if db is None:
            return self._state.main
        if db.name not in self._trees:
            found = self.get(db.name)
            # A database that is made after this state has no entry in it.
            self._trees[db.name] = _EMPTY if found is None else Tree.of(found)
        return self._trees[db.name]


class PageCursor:
    """A position in a tree, at a key, and at one of its duplicates if it has several."""

    def __init__(self, transaction: PageTransaction, tree: Tree) -> None:
        self._transaction = transaction
        self._tree = tree
        self._nodes: Iterator[_Node] = iter(())
        self._node: _Node | None = None
        self._blocks: Iterator[bytes] = iter(())
        self._block = b""
        self._width = 0

    def first(self) -> bool:
        """Go to the first key; False if there is none."""
        return self.set_range(b"")

    def set_range(self, key: bytes) -> bool:
        """Go to the first key that is not below this one; False if there is none."""
        self._nodes = self._nodes_from(key)
        return self.next()

    def set_key(self, key: bytes) -> bool:
        """Go to a key; False if it is not there."""
        return self.set_range(key) and self.key() == key

    def next(self) -> bool:
        """Go to the next key; False after the last one."""
        self._node = next(self._nodes, None)
        return self._node is not None and self._at_duplicates(b"")

    def key(self) -> bytes:
        return b"" if self._node is None else self._node.key

    def value(self) -> bytes:
        """The value, or the duplicate that the cursor is at."""
        return self._block[: self._width]

    def iternext(self, *, values: bool) -> Iterator[bytes]:
        """All keys from the first one on."""
        assert not values  # noqa: S101  (nobody reads both)
        return (node.key for node in self._nodes_from(b""))

    def count(self) -> int:
        """How many duplicates the key has."""
        node = self._required()
        if not node.flags & _HAS_DUPLICATES:
            return 1
        return Tree.of(node.data).entries if node.flags & _IS_TREE else _Page(node.data).count

    def last_dup(self) -> bool:
        """Go to the last duplicate of the key."""
        node = self._required()
        if not node.flags & _HAS_DUPLICATES:
            return True
        page = _Page(node.data) if not node.flags & _IS_TREE else self._last_leaf(Tree.of(node.data))
        self._block, self._blocks = page.records(page.count - 1), iter(())
        return bool(self._block)

    def set_range_dup(self, key: bytes, value: bytes) -> bool:
        """Go to the first duplicate of a key that is not below this value; False if there is none."""
        return self.set_key(key) and self._at_duplicates(value)

    def iternext_dup(self) -> Iterator[bytes]:
        """The duplicates of the key, from this one on."""
        while self._block:
            for start in range(0, len(self._block), self._width):
                yield self._block[start : start + self._width]
            self._block = next(self._blocks, b"")

    def getmulti(self, keys: Iterable[bytes], *, dupdata: bool, dupfixed_bytes: int, keyfixed: bool) -> bytes:
        """The duplicates of some keys, each behind its key."""
        assert dupdata and keyfixed  # noqa: S101, PT018  (nobody reads another form)
        found = []
        for key in keys:
            if self.set_key(key):
                assert self._width == dupfixed_bytes  # noqa: S101
                found += [key + record for record in self.iternext_dup()]
        return b"".join(found)

    def _required(self) -> _Node:
        if self._node is None:
            raise ValueError("the cursor is at no key")
        return self._node

    def _at_duplicates(self, value: bytes) -> bool:
        """Go to the first duplicate of this key that is not below a value."""
        node = self._required()
        if not node.flags & _HAS_DUPLICATES:
            self._blocks = iter(())
            self._block = self._value_of(node)
            self._width = len(self._block)
            return self._block >= value
        if node.flags & _IS_TREE:
            tree = Tree.of(node.data)
            self._width = tree.record_size
            self._blocks = (page.records_from(value) for page in self._leaves(tree, value))
        else:
            page = _Page(node.data)
            self._width = page.record_size
            self._blocks = iter([page.records_from(value)])
        # The leaf that a value leads to may end below it.
        self._block = next((block for block in self._blocks if block), b"")
        return bool(self._block)

    def _value_of(self, node: _Node) -> bytes:
        if not node.flags & _IS_LARGE:
            return node.data
        return self._transaction.large_value(int.from_bytes(node.data[:8], "little"), node.size)

    def _nodes_from(self, key: bytes) -> Iterator[_Node]:
        for page in self._leaves(self._tree, key):
            for number in range(bisect_left(range(page.count), key, key=page.key), page.count):
                yield page.node(number)

    def _leaves(self, tree: Tree, key: bytes) -> Iterator[_Page]:
        """The leaves from the one on that would hold a key."""
        if tree.depth == 0:
            return
        if tree.depth > _MOST_LEVELS:
            raise ValueError("a tree is too deep")
        yield from self._leaves_below(tree.root, tree.depth, key)

    def _leaves_below(self, number: int, depth: int, key: bytes) -> Iterator[_Page]:
        page = self._transaction.page(number)
        if depth == 1:
            yield page
            return
        if not page.flags & _BRANCH:
            raise ValueError("a branch page is missing")
        first = max(bisect_right(range(1, page.count), key, key=page.key), 0)
        for child in range(first, page.count):
            yield from self._leaves_below(page.below(child), depth - 1, key)

    def _last_leaf(self, tree: Tree) -> _Page:
        page = self._transaction.page(tree.root)
        for _ in range(min(tree.depth, _MOST_LEVELS) - 1):
            page = self._transaction.page(page.below(page.count - 1))
        return page


@dataclass(frozen=True, slots=True)
class _Node:
    """A key of a leaf.

    Attributes:
        key: the key.
        flags: how its data is to be read.
        size: bytes of its value.
        data: its value, or where that is.
    """

    key: bytes
    flags: int
    size: int
    data: bytes


class _Page:
    """The copy of a page, or of a page inside a node."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        _, self.record_size, self.flags, end, _ = _PAGE_HEADER.unpack_from(content)
        self.count = (end - _PAGE_HEADER.size) >> 1

    def records(self, first: int) -> bytes:
        """The records of one size, from the one numbered ``first`` on."""
        if not self.flags & _LEAF2:
            raise ValueError("a page has no records of one size")
        end = _PAGE_HEADER.size + self.count * self.record_size
        if end > len(self._content):
            raise ValueError("a page has more records than room")
        return self._content[_PAGE_HEADER.size + max(first, 0) * self.record_size : end]

    def records_from(self, value: bytes) -> bytes:
        """The records of one size that are not below a value."""
        return self.records(bisect_left(range(self.count), value, key=self._record))

    def key(self, number: int) -> bytes:
        at, _, _, key_size = self._header(number)
        return self._content[at : at + key_size]

    def below(self, number: int) -> int:
        """The page that a node of a branch page leads to."""
        _, low, high, _ = self._header(number)
        return low | high << 32

    def node(self, number: int) -> _Node:
        at, size, flags, key_size = self._header(number)
        start = at + key_size
        stored = 8 if flags & _IS_LARGE else size
        if start + stored > len(self._content):
            raise ValueError("a node is longer than its page")
        return _Node(self._content[at:start], flags, size, self._content[start : start + stored])

    def _header(self, number: int) -> tuple[int, int, int, int]:
        (at,) = struct.unpack_from("<H", self._content, _PAGE_HEADER.size + 2 * number)
        size, flags, key_size = _NODE.unpack_from(self._content, at)
        return at + _NODE.size, size, flags, key_size

    def _record(self, number: int) -> bytes:
        start = _PAGE_HEADER.size + number * self.record_size
        return self._content[start : start + self.record_size]


_EMPTY: Final = Tree(0, 0, 0, 0)
