"""Apache Hudi's formats, and nothing else: properties, schemas, key generators, base files."""
