"""Operator projects: their PROJECT file, their Go API types, and the base of their ClusterServiceVersion."""
