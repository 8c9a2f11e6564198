"""Tests of `opmkit.index.template_rendering`."""
