"""What a table is, now and as of an instant: its definition, its folders, its file slices."""
