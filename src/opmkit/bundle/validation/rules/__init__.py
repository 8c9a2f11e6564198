"""The rules, a module for each validator or part of one."""
