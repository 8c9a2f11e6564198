"""Errors, hints, files, interrupts and workers: what all packages use, and what knows none of them."""
