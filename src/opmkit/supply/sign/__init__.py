"""Signing of images, with keys and keyless, and verification of bundle images before they are added."""
