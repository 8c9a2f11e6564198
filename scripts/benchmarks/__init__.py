"""Benchmarks of whole commands, with Go opm in the same run for comparison."""
