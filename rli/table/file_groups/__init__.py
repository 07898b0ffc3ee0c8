"""Work on one file group at a time, over Arrow: what both engines run in their tasks."""
