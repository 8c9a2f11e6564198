"""Progress of commands: bars, lines and events on stderr."""
