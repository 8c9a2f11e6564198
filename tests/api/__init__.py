"""Tests of ``opmkit._api``."""
