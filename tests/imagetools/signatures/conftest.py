"""Fixtures for signatures."""

from tests.kit.signing import gopolicy, pushed, signed

__all__ = ["gopolicy", "pushed", "signed"]
