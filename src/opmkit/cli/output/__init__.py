"""Output of commands: results on stdout, errors and warnings on stderr."""
