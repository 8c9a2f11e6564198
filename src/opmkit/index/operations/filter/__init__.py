"""Keep parts of a file-based catalog: packages, channels and version ranges, with valid update graphs."""
