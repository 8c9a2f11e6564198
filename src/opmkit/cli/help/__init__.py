"""Help pages, the tree of commands, and shell completion."""
