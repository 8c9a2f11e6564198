"""Replacement of image tags by digests in the manifests of a bundle."""
