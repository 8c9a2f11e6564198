"""Build bundle images from a Dockerfile that only copies files and sets labels, without a container engine."""
