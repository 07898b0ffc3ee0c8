"""The commands of the command line, in modules by subject."""
