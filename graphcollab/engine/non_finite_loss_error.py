"""What training raises when it blows up."""

from __future__ import annotations

__all__ = ["NonFiniteLossError"]


class NonFiniteLossError(ArithmeticError):
    """A node's loss is not a finite number; the message names node, round and step."""
