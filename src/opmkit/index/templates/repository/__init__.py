"""Render all catalog templates of a repository in one run, reproducibly by a lock file of image digests."""
