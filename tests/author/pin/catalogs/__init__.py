"""Tests of the pinning of catalogs."""
