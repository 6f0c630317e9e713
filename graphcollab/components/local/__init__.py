"""The local slot: the local update of a node on its own data."""
