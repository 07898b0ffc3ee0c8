"""How the writers of a table agree: mutual exclusion, the registry of writers, and signs of life."""
