"""The exchange slot: a formula (base, message, weights) and the route of models; the bytes follow from both."""
