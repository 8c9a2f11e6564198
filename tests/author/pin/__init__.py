"""Tests of the package for pinning of images."""
