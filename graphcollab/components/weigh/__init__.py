"""The weigh slot: computation of the edge weights."""
