"""REHOUSE: say what this package is for."""
