"""Errors and warnings of the package: each has a code and a subject, so that handlers need not parse its text.

The class of an error determines its code, such as ``"not-finite"`` for ``NotFiniteError``. Every class also derives
from the built-in error that users expect (``RangeError`` is a ``ValueError``).
"""

from __future__ import annotations

import re
from typing import Any, ClassVar


class GraphcollabError(Exception):
    """Base of all errors that the package raises on purpose, with a ``code`` (its kind) and a ``subject``.

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
    """The input is ambiguous."""


class ConflictError(GraphcollabError, ValueError):
    """Two settings, or a setting and the data, exclude each other."""


class ContractError(GraphcollabError, ValueError):
    """A user-defined component, model, loss, metric or dataset violates a rule that the package relies on."""


class DamagedError(GraphcollabError, ValueError):
    """A file or message is incomplete or was altered."""


class DisconnectedError(GraphcollabError, ValueError):
    """The graph lacks edges that the method needs."""


class DivergedError(GraphcollabError, ArithmeticError):
    """Training diverged: a loss or parameter is not finite."""


class DuplicateError(GraphcollabError, ValueError):
    """A name or element occurs more than once."""


class EmptyError(GraphcollabError, ValueError):
    """The input is empty."""


class ExistsError(GraphcollabError, FileExistsError):
    """A file or folder would be overwritten."""


class FormatError(GraphcollabError, ValueError):
    """A file, text or message has an unexpected format."""


class InUseError(GraphcollabError, RuntimeError):
    """Another run is using the folder."""


class InvalidTypeError(GraphcollabError, TypeError):
    """A value has the wrong type, or a function lacks an argument of that name."""


class InvalidValueError(GraphcollabError, ValueError):
    """A value is not allowed, and no other class is more specific."""


class LostError(GraphcollabError, RuntimeError):
    """A process, a site or the connection to it is lost."""


class MismatchError(GraphcollabError, ValueError):
    """Values that must agree differ, between nodes, sites, processes or files."""


class MissingError(GraphcollabError, ValueError):
    """A setting, column, field or other part is missing."""


class MissingFileError(GraphcollabError, FileNotFoundError):
    """A file or folder does not exist."""


class MissingPackageError(GraphcollabError, ModuleNotFoundError):
    """An optional package is not installed."""


class NotFiniteError(GraphcollabError, ValueError):
    """Inputs, targets or weights are NaN or infinite."""


class OtherRunError(GraphcollabError, ValueError):
    """A checkpoint belongs to another run."""


class PathError(GraphcollabError, OSError):
    """A path leads to something unexpected, such as a folder instead of a file."""


class RangeError(GraphcollabError, ValueError, IndexError):
    """A number is out of range."""


class ResourceError(GraphcollabError, MemoryError):
    """Memory, disk space or processors are insufficient."""


class ShapeError(GraphcollabError, ValueError):
    """A tensor or table has the wrong shape or number type."""


class StateError(GraphcollabError, RuntimeError):
    """The call is not valid in the current state."""


class TooFewError(GraphcollabError, ValueError):
    """There are fewer samples, nodes, classes or values than required."""


class TooManyError(GraphcollabError, ValueError):
    """There are more samples, nodes, classes or values than allowed."""


class UnknownError(GraphcollabError, ValueError, KeyError):
    """A name is unknown."""


class UnsupportedError(GraphcollabError, ValueError, NotImplementedError):
    """The combination is valid but not supported."""


class UntrustedError(GraphcollabError, ValueError):
    """A file requests the execution of code, which loading never allows."""


class VersionError(GraphcollabError, ValueError):
    """The version of a package, file or protocol is incompatible."""


class GraphcollabWarning(UserWarning, RuntimeWarning):
    """A warning of the package, issued by `graphcollab._base.checks.issue`; its subject is as in `GraphcollabError`.

    Its code is ``"no-effect"``, ``"quality"``, or the code of the corresponding error.
    """

    def __init__(self, code: str, subject: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.subject = subject
