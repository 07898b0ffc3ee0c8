"""What a table is: where it lies, what its properties say, and what rli keeps with it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from rli.errors import CorruptTableError, IndexNotReadyError, SettingsError
from rli.hudi.key_generator import KeyGenerator
from rli.hudi.properties import Key, TableProperties, load_properties
from rli.hudi.table_features import require_readable
from rli.hudi.timeline.archive import Archive
from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import Timeline, is_unbroken, listed_timeline, load_timeline
from rli.index_urls import has_unique_keys
from rli.model import Durability
from rli.settings import IndexSettings, TableSettings
from rli.storage import Storage
from rli.urls import StoredUrl
from rli.view import paths
from rli.view.index_binding import IndexBinding
from rli.view.index_location import from_stored


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table as its stored settings describe it. Picklable.

    Attributes:
        storage: its folder.
        properties: Hudi's properties.
        settings: rli's settings; None for a table that rli has not taken up yet.
        binding: which index this process uses; None as long as rli has not taken the table up.
    """

    storage: Storage
    properties: TableProperties
    settings: TableSettings | None
    binding: IndexBinding | None = field(default=None, repr=False)

    @property
    def location(self) -> str:
        return self.storage.location

    @property
    def key_generator(self) -> KeyGenerator:
        return KeyGenerator(
            self.properties.record_key_fields,
            self.properties.partition_fields,
            self.properties.hive_style,
            self.properties.url_encode,
        )

    def now(self) -> datetime:
        """The clock that the table's instants are taken from: UTC, or the writer's local time."""
        in_utc = self.properties.raw.get(Key.TIMEZONE, "LOCAL").upper() == "UTC"
        return datetime.now(UTC) if in_utc else datetime.now()  # noqa: DTZ005  (local time is what is meant)

    def load_timeline(self) -> Timeline:
        """The timeline as it is now; raises ``TableNotFoundError`` if the table was dropped."""
        timeline = load_timeline(self.storage, self.timeline_layout)
        self._require_table_of(timeline)
        return timeline

    def listed_timeline(self) -> Timeline:
        """As ``load_timeline``, from a single listing if the storage lists by name.

        Such a timeline may lack instants that left for the archive meanwhile. It is whole if a later one, of
        ``timeline_behind``, has its first write.
        """
        if not self.storage.lists_by_name:
            return self.load_timeline()
        layout = self.timeline_layout
        timeline = listed_timeline(self.storage, layout, self.storage.list_files(layout.folder))
        self._require_table_of(timeline)
        return timeline

    def timeline_behind(self, earlier: Timeline) -> Timeline:
        """The timeline as it is now, after another was listed; raises as ``load_timeline``."""
        timeline = self.listed_timeline()
        # Two equal listings in the order of names are both whole: the last write never leaves, so an instant that left
        # during the second listing would be followed by a later write.
        if timeline.instants == earlier.instants or not self.storage.lists_by_name or is_unbroken(timeline):
            return timeline
        return self.load_timeline()

    def _require_table_of(self, timeline: Timeline) -> None:
        if not timeline.instants:
            # The folder of a table that was dropped looks like a table without a commit.
            load_properties(self.storage)

    @property
    def archive(self) -> Archive:
        """Where instants go that leave the active timeline."""
        return Archive(self.storage, self.timeline_layout)

    def has_archive(self) -> bool:
        """Whether instants have left the active timeline."""
        return not self.archive.is_empty()

    @property
    def write_action(self) -> Action:
        """As what its writes are on the timeline, unless they replace file groups."""
        return Action.COMMIT if self.properties.is_copy_on_write else Action.DELTA_COMMIT

    @property
    def timeline_layout(self) -> TimelineLayout:
        """Where the files of the timeline are, and what they look like, by the table's version."""
        raw = self.properties.raw
        return TimelineLayout.of(
            self.properties.layout_version,
            self.properties.timeline_path,
            raw.get(Key.ARCHIVE_FOLDER) or "archived",
            raw.get(Key.HISTORY_PATH) or "history",
        )

    def reloaded(self) -> TableDefinition:
        """The definition with the properties as they are now: other engines change them."""
        properties = load_properties(self.storage)
        require_readable(properties)
        return replace(self, properties=properties)

    def durable(self) -> TableDefinition:
        """The table over a storage that waits for the disk, whatever the settings say."""
        storage = self.storage.flushed()
        return self if storage is self.storage else replace(self, storage=storage)

    def with_settings(self, settings: TableSettings) -> TableDefinition:
        return replace(self, settings=settings)

    @property
    def index_url(self) -> str:
        """See ``IndexBinding.url``."""
        return StoredUrl(self.require_settings().index_url) if self.binding is None else self.binding.url

    @property
    def has_unique_keys(self) -> bool:
        """Whether a record key is in one place of the table at most: its index of rli is kept so."""
        return self.settings is not None and has_unique_keys(self.index_url)

    @property
    def callers_in_place_of(self) -> str | None:
        """See ``IndexBinding.in_place_of``."""
        return None if self.binding is None else self.binding.in_place_of

    def adopted(self) -> TableDefinition:
        """The table once it names the index of this process."""
        return self if self.binding is None else replace(self, binding=self.binding.adopted())

    def require_settings(self) -> TableSettings:
        """The settings that rli keeps with the table; raises ``IndexNotReadyError`` where rli has not taken it up."""
        if self.settings is None:
            raise IndexNotReadyError(
                f"the table has no index: table={self.location}",
                remedy="bootstrap one: rli index bootstrap TABLE --index URL",
            )
        return self.settings

    def expected_index_settings(self, index: IndexSettings) -> IndexSettings:
        """What the settings of the table's own index must be; what the table does not fix is taken from ``index``."""
        return index.model_copy(
            update={
                "table_id": self.require_settings().table_id,
                "key_fields": self.properties.record_key_fields,
            }
        )


def durable_as(storage: Storage, settings: TableSettings) -> Storage:
    """A storage that waits for the disk where the settings of its table say so."""
    return storage.durable(wanted=settings.durability is Durability.DISK)


def load_definition(storage: Storage) -> TableDefinition:
    """Read the definition of the table in a folder.

    Raises:
        TableNotFoundError: there is none.
        UnsupportedTableError: there is one that rli cannot read.
        CorruptTableError: its properties or settings are damaged.
    """
    properties = load_properties(storage)
    require_readable(properties)
    settings, url = load_settings(storage)
    if settings is None or url is None:
        return TableDefinition(storage.durable(wanted=True), properties, None)
    return TableDefinition(durable_as(storage, settings), properties, settings, IndexBinding(url))


def load_settings(storage: Storage) -> tuple[TableSettings, StoredUrl] | tuple[None, None]:
    """The settings that rli keeps with a table, and the URL of its index; raises ``CorruptTableError`` for damaged ones."""
    content = storage.read_bytes(paths.SETTINGS)
    if content is None:
        return None, None
    try:
        return from_stored(storage, content)
    except SettingsError as error:
        raise CorruptTableError(
            f"the settings that rli keeps with the table are damaged: file={paths.SETTINGS} ({error})",
            remedy="restore the file, or remove it and bootstrap the index again",
        ) from error
