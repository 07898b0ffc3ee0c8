"""HFile of version 3, the format of the base files and of most log blocks in Hudi's metadata table.

The form is that of Hudi's HFile specification (``hudi-io/hfile_format.md`` among Hudi's sources), which describes the part of
HBase's format that Hudi uses: data blocks with cells in the order of their keys, then the root index of these blocks, an
index of meta blocks, the file info, and a trailer of 4,096 bytes.
"""
