"""Statements about bundle and index images: software bills of materials, and provenance."""
