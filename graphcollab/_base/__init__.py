"""Shared foundations of the package: settings, names, files, errors, memory, threads, keyed randomness."""
