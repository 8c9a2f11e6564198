"""Parsing of command lines: commands of typer with the flags and errors of Go programs."""
