"""Differences between two indexes, package by package."""
