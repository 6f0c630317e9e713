"""The command ``graphcollab`` up to where it begins to work: its words, help, completion, and how it ends.

Importing ``graphcollab`` takes seconds, since PyTorch does. So this package imports nothing of it before there is
something to do, and reads what commands take from ``declared.json``, which ``make generate`` writes from the commands
in ``graphcollab.command``.
"""
