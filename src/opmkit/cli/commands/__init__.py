"""The commands, a module for each group: a function parses and renders, and calls one function of the packages."""
