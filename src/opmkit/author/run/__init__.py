"""Operator Lifecycle Manager (OLM) in clusters."""
