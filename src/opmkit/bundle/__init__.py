"""One operator version: its files, metadata, generation, building and unpacking."""
