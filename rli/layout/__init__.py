"""The files of a table: properties, schemas, base files and what they are named."""
