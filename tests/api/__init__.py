"""Tests of ``opmkit.api``."""
