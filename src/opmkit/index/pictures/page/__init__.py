"""Page of update graphs for browsers."""
