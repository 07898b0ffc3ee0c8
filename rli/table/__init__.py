"""Tables: what readers, writers and checks do with a table and its index together."""
