"""Tests of `opmkit.index.templates.repository`."""
