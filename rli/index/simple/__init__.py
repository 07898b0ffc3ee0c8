"""The simple index: records are found by a join with the record keys that the table's own files hold."""
