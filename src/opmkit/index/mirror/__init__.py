"""Mirroring of indexes with all of their images."""
