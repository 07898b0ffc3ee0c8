"""Upkeep of Hudi's metadata table: what a change of the table means there, as records."""
