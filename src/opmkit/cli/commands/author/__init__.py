"""Commands for authors of operators; they require :mod:`opmkit.author`."""
