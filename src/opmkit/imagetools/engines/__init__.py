"""Clients of the container engines docker, podman and buildah."""
