"""Onboarding of operators to file-based catalogs: templates for what is published from their bundles."""
