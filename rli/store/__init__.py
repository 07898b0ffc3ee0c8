"""Stores: the contract, the registry that finds them by URL, and the one in memory."""
