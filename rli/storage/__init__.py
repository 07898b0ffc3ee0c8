"""Files of a table, on a local or mounted file system or in an object store."""

from rli.storage.contract import Draft, FileVersion, Versioned
from rli.storage.storage import Storage, StoredFile

__all__ = ["Draft", "FileVersion", "Storage", "StoredFile", "Versioned"]
