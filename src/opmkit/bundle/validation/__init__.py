"""Validation of bundles: rules, and what they find."""
