"""Build, validate, publish and serve OLM operator content without a container daemon."""

__version__ = "0.1.0"
