"""Errors and warnings of the package: each has a code and a subject, so that handlers need not parse its text.

An error's class names its kind and so its code, ``"not-finite"`` of ``NotFiniteError``; it is also the built-in error
that users expect (``RangeError`` is a ``ValueError``).
"""

from __future__ import annotations

import re
from typing import Any, ClassVar


class GraphcollabError(Exception):
    """Base of all errors that the package raises on purpose; ``code`` is the kind, ``subject`` what it is about.

    A subject is an argument (``"rounds"``) or an element (``"node 'b'"``, ``"column 'age'"``).
    """

    code: ClassVar[str] = "error"

    def __init_subclass__(cls) -> None:
        if GraphcollabError in cls.__bases__:
            words = re.findall("[A-Z][a-z]+", cls.__name__.removeprefix("Invalid").removesuffix("Error"))
            cls.code = "-".join(words).lower()

    def __init__(self, subject: str, message: str) -> None:
        super().__init__(message)
        self.subject = subject

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.subject, str(self)), vars(self)


class AmbiguousError(GraphcollabError, ValueError):
    """The input can be read in two ways."""


class ConflictError(GraphcollabError, ValueError):
    """Two settings, or a setting and the data, exclude each other."""


class ContractError(GraphcollabError, ValueError):
    """A component, model, loss, metric or dataset of the user breaks a rule that the package relies on."""


class DamagedError(GraphcollabError, ValueError):
    """A file or message is incomplete or was altered."""


class DisconnectedError(GraphcollabError, ValueError):
    """The graph lacks edges that the method needs."""


class DivergedError(GraphcollabError, ArithmeticError):
    """Training diverged: a loss or parameter is not finite."""


class DuplicateError(GraphcollabError, ValueError):
    """A name or an element occurs more than once."""


class EmptyError(GraphcollabError, ValueError):
    """There is nothing to work on."""


class ExistsError(GraphcollabError, FileExistsError):
    """A file or folder would be overwritten."""


class FormatError(GraphcollabError, ValueError):
    """A file, text or message has another format than expected."""


class InUseError(GraphcollabError, RuntimeError):
    """Another run uses the folder."""


class InvalidTypeError(GraphcollabError, TypeError):
    """A value has the wrong type, or a function has no such argument."""


class InvalidValueError(GraphcollabError, ValueError):
    """A value is none of those allowed, and no other class says more."""


class LostError(GraphcollabError, RuntimeError):
    """A process, a site or the connection to it is lost."""


class MismatchError(GraphcollabError, ValueError):
    """Values that must agree differ, between nodes, sites, processes or files."""


class MissingError(GraphcollabError, ValueError):
    """A setting, a column, a field or another part is missing."""


class MissingFileError(GraphcollabError, FileNotFoundError):
    """There is no such file or folder."""


class MissingPackageError(GraphcollabError, ModuleNotFoundError):
    """An optional package is not installed."""


class NotFiniteError(GraphcollabError, ValueError):
    """Inputs, targets or weights are NaN or infinite."""


class OtherRunError(GraphcollabError, ValueError):
    """A checkpoint belongs to another run."""


class PathError(GraphcollabError, OSError):
    """A path leads to something else than expected, such as a folder instead of a file."""


class RangeError(GraphcollabError, ValueError, IndexError):
    """A number is outside of the allowed range."""


class ResourceError(GraphcollabError, MemoryError):
    """Memory, disk space or processors do not suffice."""


class ShapeError(GraphcollabError, ValueError):
    """A tensor or table has the wrong shape or number type."""


class StateError(GraphcollabError, RuntimeError):
    """The call does not fit what happened before it."""


class TooFewError(GraphcollabError, ValueError):
    """There are fewer samples, nodes, classes or values than needed."""


class TooManyError(GraphcollabError, ValueError):
    """There are more samples, nodes, classes or values than allowed."""


class UnknownError(GraphcollabError, ValueError, KeyError):
    """A name is not known."""


class UnsupportedError(GraphcollabError, ValueError, NotImplementedError):
    """The combination is valid, but not supported."""


class UntrustedError(GraphcollabError, ValueError):
    """A file asks for code that loading never runs."""


class VersionError(GraphcollabError, ValueError):
    """The version of a package, a file or a protocol does not fit."""


class GraphcollabWarning(UserWarning, RuntimeWarning):
    """A warning of the package, issued by `graphcollab._base.checks.issue`; its subject is as in `GraphcollabError`.

    Its code is ``"no-effect"``, ``"quality"``, or that of an error that it would be elsewhere.
    """

    def __init__(self, code: str, subject: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.subject = subject


__all__ = [name for name, one in [*globals().items()] if isinstance(one, type) and one.__module__ == __name__]
