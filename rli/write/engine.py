"""All that an engine needs of rli, such as ``rli_spark``: the interface, the operations, and the parts to build with.

An engine imports ``rli``, ``rli.errors`` and this module, and nothing else of rli. ``rli.write.contract`` says how the
parts play together.
"""

from __future__ import annotations

from rli.codec.content_hashes import content_hashes
from rli.codec.fingerprints import mixed
from rli.codec.key_codec import HASHES, hash_keys, key_hashes, routing_hashes
from rli.commit.readiness import await_synced
from rli.commit.requests import RequestFolder, request_folder_of
from rli.commit.step_clock import OnStep
from rli.file_group import work_rows
from rli.file_group.batches import coalesce_tables
from rli.file_group.work_rows import Change
from rli.file_group.writer import FileGroupResult
from rli.filters import predicates
from rli.filters.predicates import columns_of
from rli.hudi.meta_columns import IS_DELETED, with_meta_columns
from rli.hudi.table_keys import TableKeys
from rli.index.contract import LOOKUP_SECONDS, FileIndex, TableIndex
from rli.index.following import Position, relocated, relocations_of, unseen_writes
from rli.index.locators import Comparisons, FileLocator, FoundLocations, Locator, PruningLocator, Unlocated
from rli.index.reports import SomeKeys, sum_of
from rli.locations import LOCATION_SCHEMA, named_groups
from rli.model import FileGroupId, Scope
from rli.reads import point_reads
from rli.storage import Storage
from rli.tasks import TaskRunner
from rli.view.caller_metadata import ComparedBy
from rli.view.definition import TableDefinition
from rli.view.file_slice_reader import only_base_file
from rli.view.file_slices import FileSlice
from rli.view.given_keys import table_keys
from rli.view.paths import stream_folder
from rli.view.second_look import OVERTAKEN, SecondLook
from rli.view.snapshot import Snapshot
from rli.view.stored_types import slices_by_types
from rli.write.choices import one_of
from rli.write.contract import (
    Engine,
    FileGroupWriting,
    Request,
    RowPlacing,
    TaggedRows,
    Tagging,
    WorkloadProfile,
    WritePlan,
)
from rli.write.delete import delete
from rli.write.insert import insert
from rli.write.keying import FirstRecordKeying, Keying, RecordKeying
from rli.write.local_engine import LocalRows
from rli.write.options import WriteOptions, pass_over
from rli.write.placement import SizedPlacement
from rli.write.tagging import LateMoves, TaggedBatch, groups_of, split_by_code
from rli.write.tally import Tally, require_same
from rli.write.upsert import upsert

__all__ = [
    "HASHES",
    "IS_DELETED",
    "LOCATION_SCHEMA",
    "LOOKUP_SECONDS",
    "OVERTAKEN",
    "Change",
    "ComparedBy",
    "Comparisons",
    "Engine",
    "FileGroupId",
    "FileGroupResult",
    "FileGroupWriting",
    "FileIndex",
    "FileLocator",
    "FileSlice",
    "FirstRecordKeying",
    "FoundLocations",
    "Keying",
    "LateMoves",
    "LocalRows",
    "Locator",
    "OnStep",
    "Position",
    "PruningLocator",
    "RecordKeying",
    "Request",
    "RequestFolder",
    "RowPlacing",
    "Scope",
    "SecondLook",
    "SizedPlacement",
    "Snapshot",
    "SomeKeys",
    "Storage",
    "TableDefinition",
    "TableIndex",
    "TableKeys",
    "TaggedBatch",
    "TaggedRows",
    "Tagging",
    "Tally",
    "TaskRunner",
    "Unlocated",
    "WorkloadProfile",
    "WriteOptions",
    "WritePlan",
    "await_synced",
    "coalesce_tables",
    "columns_of",
    "content_hashes",
    "delete",
    "groups_of",
    "hash_keys",
    "insert",
    "key_hashes",
    "mixed",
    "named_groups",
    "one_of",
    "only_base_file",
    "pass_over",
    "point_reads",
    "predicates",
    "relocated",
    "relocations_of",
    "request_folder_of",
    "require_same",
    "routing_hashes",
    "slices_by_types",
    "split_by_code",
    "stream_folder",
    "sum_of",
    "table_keys",
    "unseen_writes",
    "upsert",
    "with_meta_columns",
    "work_rows",
]
