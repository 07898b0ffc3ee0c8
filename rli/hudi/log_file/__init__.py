"""Log files of Hudi: blocks of records, of deleted keys, and of rollbacks, one after the other.

The form is that of Hudi's log format version 1 (``HoodieLogFormat`` among Hudi's sources), which tables of versions 6 to 9
share. Table version 10 writes its log files in other forms, with other names.
"""
