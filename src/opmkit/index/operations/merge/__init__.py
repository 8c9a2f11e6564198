"""Merge several indexes into one file-based catalog, package by package."""
