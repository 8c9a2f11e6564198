"""The version of opmkit."""

__version__ = "0.1.0"
