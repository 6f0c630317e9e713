"""What every part of the package uses: settings, names, files, errors, memory, threads, keyed randomness."""
