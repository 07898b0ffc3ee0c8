"""When there is an index of a name: making it, finding it, and removing it.

Each server of an index has a header for it, and the one on the first server says whether the index is there. An
index is "making" until everything is there that an empty index has, and "dropping" before anything of it is removed,
so that what a process that died has left is completed by the next one who comes. A header is only ever changed or
removed by one who names the content that it has: nobody who comes late touches another index of the same name.
"""

from __future__ import annotations

import secrets
from typing import Annotated, Final, Literal

from pydantic import Field

from rli.errors import (
    CorruptIndexError,
    IndexMismatchError,
    IndexNotFoundError,
    IndexNotReadyError,
    SettingsError,
)
from rli.store import StoredSettings
from rli_redis.contents import make_contents, remove_contents
from rli_redis.keyspace import DIGITS, ID_LENGTH, Names, header_key, id_key, key_prefix
from rli_redis.scripts import CREATE_INDEX, REMOVE_HEADER, REPLACE_HEADER
from rli_redis.segments import HASH_KEY_WIDTH, MAX_PREFIX_WIDTH
from rli_redis.servers import Command, Servers
from rli_redis.upgrading import upgrade_contents

FORMAT: Final = 4
"""The version of the format. Indexes of version 3 go on as they are; those of version 2 are upgraded to it."""

_BY_PREFIX: Final = 5
"""The same for indexes whose keys are found by how they begin."""

_WITHOUT_NAMES: Final = 3
"""The last version whose keys do not have the index's name, and whose buckets are found by a hash without a key."""

_MAKING: Final = "making"
_READY: Final = "ready"
_DROPPING: Final = "dropping"


class Header(StoredSettings):
    """What a server keeps of an index as a whole.

    Attributes:
        version: of the format.
        id: of the index.
        server: this server's place among those of the index, from 0; a Redis Cluster counts as one server.
        servers: how many there are.
        state: of the index; only the first server's counts.
        hash_key: of the hash that decides which bucket a record is in, in hexadecimal digits; since version 4.
        prefix: how many bytes decide with which others a key shares few buckets; in version 5 alone.
    """

    version: Literal[2, 3, 4, 5] = FORMAT
    id: Annotated[str, Field(pattern=rf"^[A-Za-z0-9_-]{{{ID_LENGTH}}}$")]
    server: int
    servers: int
    state: Literal["making", "ready", "dropping"]
    hash_key: Annotated[str, Field(pattern=rf"^([0-9a-f]{{{2 * HASH_KEY_WIDTH}}})?$")] = ""
    prefix: Annotated[int, Field(ge=0, le=MAX_PREFIX_WIDTH)] = 0

    def to_json(self) -> bytes:
        # Former versions of rli read the header of format 4, and refuse fields that they do not know.
        return self.model_dump_json(indent=1, exclude=None if self.prefix else {"prefix"}).encode()

    @property
    def is_consistent(self) -> bool:
        """Whether the fields suit the version: with others, keys and buckets would be sought where they are not."""
        has_names = self.version > _WITHOUT_NAMES
        return bool(self.hash_key) == has_names and bool(self.prefix) == (self.version == _BY_PREFIX)

    def names(self, name: str) -> Names:
        """The keys of the index, whose name is given."""
        if self.version <= _WITHOUT_NAMES:
            return Names(self.id)
        return Names(self.id, key_prefix(name), bytes.fromhex(self.hash_key), self.prefix)


def random_id() -> str:
    """An id for an index; one of the same name that was dropped before has hardly ever the same."""
    return "".join(secrets.choice(DIGITS) for _ in range(ID_LENGTH))


class Presence:
    """The place of an index of one name on its servers.

    Args:
        servers: of the index.
        name: of the index.
        prefix_width: of the names (``Names.prefix_width``) of an index that is made; one that is there keeps its own.
    """

    def __init__(self, servers: Servers, name: str, prefix_width: int = 0) -> None:
        self._servers = servers
        self._name = name
        self._prefix_width = prefix_width
        self._places = servers.header_places()

    def open(self, *, create: bool) -> Names:
        """The keys of the index; makes it where ``create`` is true and there is none.

        Raises:
            IndexNotFoundError: there is none and ``create`` is false.
            IndexMismatchError: it was made with other servers, or with another version of rli.
            CorruptIndexError: one of its servers has lost it.
        """
        while True:
            header = self._read(0)
            if header is not None:
                self._require_servers(header)
                if header.state == _READY:
                    self._upgrade(header)
                    return header.names(self._name)
                if header.state == _DROPPING and create:
                    self.drop(header.names(self._name))
                    continue
            if not create:
                raise IndexNotFoundError(
                    f"there is no index: store={self._servers.name} name={self._name}", remedy="create it first"
                )
            self._make(self._new_header() if header is None else header)

    def require(self, names: Names) -> None:
        """Raise ``IndexNotFoundError`` if the index is not the one that was opened any more."""
        header = self._read(0)
        if header is None or header.names(self._name) != names or header.state != _READY:
            raise IndexNotFoundError(
                f"the index was dropped, or its server lost it: store={self._servers.name} name={self._name}",
                remedy="open it again, or create it if there is none; to build the index of a table again: rli index bootstrap TABLE",
            )

    def lost(self, names: Names, what: str) -> CorruptIndexError:
        """The error for something that should be there; raises ``IndexNotFoundError`` if the index was dropped."""
        self.require(names)
        return CorruptIndexError(
            f"the server has lost a part of the index: store={self._servers.name} name={self._name} lost={what}",
            remedy=(
                "it evicted keys, or someone removed them, or it lost its memory: see `rli doctor`, then drop the "
                "index and bootstrap it again"
            ),
        )

    def went_back(self, applied: int, least: int) -> IndexNotReadyError:
        """The error for a server that has entries up to ``least``, though all up to ``applied`` were there."""
        return IndexNotReadyError(
            f"a server of the index went back to an earlier state: store={self._servers.name} applied={applied} the "
            f"server has={least}",
            remedy="run: rli index sync TABLE",
        )

    def drop(self, names: Names) -> bool:
        """Remove the index and nothing else, a bounded number of keys at a time; False if it is not there."""
        if not self._advance(names, _DROPPING):
            return False
        self._remove(names)
        return True

    def _upgrade(self, header: Header) -> None:
        """Bring an index of format 2 to format 3; processes of an older version that have it open get an error."""
        if header.version >= _WITHOUT_NAMES:
            return
        names = header.names(self._name)
        upgrade_contents(self._servers, names)
        for server in reversed(range(len(self._places))):
            stored = self._stored(server)
            if stored is not None and (older := self._parse(stored)).id == header.id:
                newer = older.model_copy(update={"version": _WITHOUT_NAMES}).to_json()
                self._replace(server, stored, newer)
        # What older versions have made until just now, too: from now on they make nothing any more.
        upgrade_contents(self._servers, names)

    def _new_header(self) -> Header:
        return Header(
            version=_BY_PREFIX if self._prefix_width else FORMAT,
            id=random_id(),
            server=0,
            servers=len(self._places),
            state=_MAKING,
            hash_key=secrets.token_hex(HASH_KEY_WIDTH),
            prefix=self._prefix_width,
        )

    def _make(self, header: Header) -> None:
        """Make the index that a header of the first server speaks of, if no one else is first with another one."""
        names = header.names(self._name)
        for server in range(len(self._places)):
            held = self._claim(server, header.model_copy(update={"server": server}))
            if (held.id, held.hash_key) != (header.id, header.hash_key):
                if server == 0:
                    return
                raise IndexMismatchError(
                    f"a server has an index of this name already: store={self._servers.name} name={self._name} "
                    f"server={server}",
                    remedy="it belongs to other servers or was left by them: choose another name",
                )
        make_contents(self._servers, names)
        if not self._advance(names, _READY):
            # It was dropped by someone else before it was made.
            self._remove(names)

    def _claim(self, server: int, header: Header) -> Header:
        """Write a server's header if there is none; returns the one that is there."""
        command = Command.run(self._places[server], CREATE_INDEX, [header_key(self._name)], [header.to_json()])
        return self._parse(self._servers.execute(command))

    def _advance(self, names: Names, state: Literal["ready", "dropping"]) -> bool:
        """Bring the first server's header into a state; False if it is another index's, or is being dropped."""
        while stored := self._stored(0):
            header = self._parse(stored)
            if header.id != names.index_id or (header.state == _DROPPING and state != _DROPPING):
                return False
            if header.state == state:
                return True
            newer = header.model_copy(update={"state": state}).to_json()
            self._replace(0, stored, newer)
        return False

    def _replace(self, server: int, stored: bytes, newer: bytes) -> None:
        self._servers.execute(
            Command.run(self._places[server], REPLACE_HEADER, [header_key(self._name)], [stored, newer])
        )

    def _remove(self, names: Names) -> None:
        self._require_own_id(names)
        remove_contents(self._servers, names)
        self._remove_headers(names)

    def _require_own_id(self, names: Names) -> None:
        """Raise if the id is that of an index of another name: what it names is not ours to remove."""
        if names.prefix:
            return
        holder = self._servers.execute(Command(self._places[0], ("GET", id_key(names.index_id))))
        if holder not in (None, self._name.encode()):
            raise IndexMismatchError(
                f"the index's header has the id of another index: store={self._servers.name} name={self._name} "
                f"id={names.index_id} held by={holder.decode(errors='replace')}",
                remedy=f"somebody changed the header: remove its key {{rli}}index:{self._name} by hand",
            )

    def _remove_headers(self, names: Names) -> None:
        keys = [header_key(self._name), *([] if names.prefix else [id_key(names.index_id)])]
        for server, place in reversed(list(enumerate(self._places))):
            stored = self._stored(server)
            if stored is not None and self._parse(stored).id == names.index_id:
                self._servers.execute(Command.run(place, REMOVE_HEADER, keys, [stored]))

    def _require_servers(self, header: Header) -> None:
        """Raise unless the servers are those that the index was made with, in their order."""
        if header.servers != len(self._places):
            raise IndexMismatchError(
                f"the index was made with another number of servers: store={self._servers.name} made "
                f"with={header.servers} opened with={len(self._places)}",
                remedy="name them all, in their order",
            )
        for server in range(1, len(self._places)):
            held = self._read(server)
            if held is None and header.state == _READY:
                raise CorruptIndexError(
                    f"a server has lost its part of the index: store={self._servers.name} name={self._name} "
                    f"server={server}",
                    remedy="restore it from its backup, or drop the index and bootstrap it again",
                )
            if held is not None and (held.id, held.server) != (header.id, server):
                raise IndexMismatchError(
                    f"the servers do not belong to the same index, or are in another order: store={self._servers.name} "
                    f"name={self._name} server={server}",
                    remedy="name them as when the index was made",
                )

    def _read(self, server: int) -> Header | None:
        stored = self._stored(server)
        return None if stored is None else self._parse(stored)

    def _stored(self, server: int) -> bytes | None:
        stored: bytes | None = self._servers.execute(Command(self._places[server], ("GET", header_key(self._name))))
        return stored

    def _parse(self, stored: bytes) -> Header:
        try:
            header = Header.from_json(stored)
        except SettingsError as error:
            raise IndexMismatchError(
                f"the index's header is unknown to this version of rli: store={self._servers.name} name={self._name} "
                f"({error})",
                remedy="open it with the version that made it",
            ) from error
        if not header.is_consistent:
            raise CorruptIndexError(
                f"the index's header contradicts itself: store={self._servers.name} name={self._name} "
                f"version={header.version} prefix={header.prefix} hash_key={'given' if header.hash_key else 'none'}",
                remedy=(
                    f"somebody changed it: restore the key {{rli}}index:{self._name} from a backup, or remove it by hand, then "
                    "bootstrap the index again, or make the index of the column again"
                ),
            )
        return header
