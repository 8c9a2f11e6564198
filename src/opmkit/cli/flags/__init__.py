"""Flags that several commands share, a module for each subject."""
