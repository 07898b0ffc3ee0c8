"""Work rows on their way between tasks, up to the file groups that they change."""
