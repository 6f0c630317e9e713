"""What the command ``graphcollab`` does: comparisons, answers and predictions without writing Python.

Options, their defaults and their help are read off the functions that take them, so they are written once. The words of
a line, help and completion are in ``graphcollab_command``, which starts without PyTorch.
"""

__all__: list[str] = []
