"""Errors and warnings of the package: each has a code and a subject, so that handlers need not parse its text.

An error's class names its kind; it is also the built-in error that users expect (``RangeError`` is a ``ValueError``).
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AmbiguousError",
    "ConflictError",
    "ContractError",
    "DamagedError",
    "DisconnectedError",
    "DivergedError",
    "DuplicateError",
    "EmptyError",
    "ExistsError",
    "FormatError",
    "GraphcollabError",
    "GraphcollabWarning",
    "InUseError",
    "InvalidTypeError",
    "InvalidValueError",
    "LostError",
    "MismatchError",
    "MissingError",
    "MissingFileError",
    "MissingPackageError",
    "NotFiniteError",
    "OtherRunError",
    "PathError",
    "RangeError",
    "ResourceError",
    "ShapeError",
    "StateError",
    "TooFewError",
    "TooManyError",
    "UnknownError",
    "UnsupportedError",
    "UntrustedError",
    "VersionError",
]


class GraphcollabError(Exception):
    """Base of all errors that the package raises on purpose; ``code`` is the kind, ``subject`` what it is about.

    A subject is an argument (``"rounds"``) or an element (``"node 'b'"``, ``"column 'age'"``).
    """

    code: ClassVar[str] = "error"

    def __init__(self, subject: str, message: str) -> None:
        super().__init__(message)
        self.subject = subject

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.subject, str(self)), vars(self)


class AmbiguousError(GraphcollabError, ValueError):
    """The input can be read in two ways."""

    code = "ambiguous"


class ConflictError(GraphcollabError, ValueError):
    """Two settings, or a setting and the data, exclude each other."""

    code = "conflict"


class ContractError(GraphcollabError, ValueError):
    """A component, model, loss, metric or dataset of the user breaks a rule that the package relies on."""

    code = "contract"


class DamagedError(GraphcollabError, ValueError):
    """A file or message is incomplete or was altered."""

    code = "damaged"


class DisconnectedError(GraphcollabError, ValueError):
    """The graph lacks edges that the method needs."""

    code = "disconnected"


class DivergedError(GraphcollabError, ArithmeticError):
    """Training diverged: a loss or parameter is not finite."""

    code = "diverged"


class DuplicateError(GraphcollabError, ValueError):
    """A name or an element occurs more than once."""

    code = "duplicate"


class EmptyError(GraphcollabError, ValueError):
    """There is nothing to work on."""

    code = "empty"


class ExistsError(GraphcollabError, FileExistsError):
    """A file or folder would be overwritten."""

    code = "exists"


class FormatError(GraphcollabError, ValueError):
    """A file, text or message has another format than expected."""

    code = "format"


class InUseError(GraphcollabError, RuntimeError):
    """Another run uses the folder."""

    code = "in-use"


class InvalidTypeError(GraphcollabError, TypeError):
    """A value has the wrong type, or a function has no such argument."""

    code = "type"


class InvalidValueError(GraphcollabError, ValueError):
    """A value is none of those allowed, and no other class says more."""

    code = "value"


class LostError(GraphcollabError, RuntimeError):
    """A process, a site or the connection to it is lost."""

    code = "lost"


class MismatchError(GraphcollabError, ValueError):
    """Values that must agree differ, between nodes, sites, processes or files."""

    code = "mismatch"


class MissingError(GraphcollabError, ValueError):
    """A setting, a column, a field or another part is missing."""

    code = "missing"


class MissingFileError(GraphcollabError, FileNotFoundError):
    """There is no such file or folder."""

    code = "missing-file"


class MissingPackageError(GraphcollabError, ModuleNotFoundError):
    """An optional package is not installed."""

    code = "missing-package"


class NotFiniteError(GraphcollabError, ValueError):
    """Inputs, targets or weights are NaN or infinite."""

    code = "not-finite"


class OtherRunError(GraphcollabError, ValueError):
    """A checkpoint belongs to another run."""

    code = "other-run"


class PathError(GraphcollabError, OSError):
    """A path leads to something else than expected, such as a folder instead of a file."""

    code = "path"


class RangeError(GraphcollabError, ValueError, IndexError):
    """A number is outside of the allowed range."""

    code = "range"


class ResourceError(GraphcollabError, MemoryError):
    """Memory, disk space or processors do not suffice."""

    code = "resource"


class ShapeError(GraphcollabError, ValueError):
    """A tensor or table has the wrong shape or number type."""

    code = "shape"


class StateError(GraphcollabError, RuntimeError):
    """The call does not fit what happened before it."""

    code = "state"


class TooFewError(GraphcollabError, ValueError):
    """There are fewer samples, nodes, classes or values than needed."""

    code = "too-few"


class TooManyError(GraphcollabError, ValueError):
    """There are more samples, nodes, classes or values than allowed."""

    code = "too-many"


class UnknownError(GraphcollabError, ValueError, KeyError):
    """A name is not known."""

    code = "unknown"


class UnsupportedError(GraphcollabError, ValueError, NotImplementedError):
    """The combination is valid, but not supported."""

    code = "unsupported"


class UntrustedError(GraphcollabError, ValueError):
    """A file asks for code that loading never runs."""

    code = "untrusted"


class VersionError(GraphcollabError, ValueError):
    """The version of a package, a file or a protocol does not fit."""

    code = "version"


class GraphcollabWarning(UserWarning, RuntimeWarning):
    """A warning of the package, issued by `graphcollab.checks.issue`; its subject is as in `GraphcollabError`.

    Its code is ``"no-effect"``, ``"quality"``, or that of an error that it would be elsewhere.
    """

    def __init__(self, code: str, subject: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.subject = subject
