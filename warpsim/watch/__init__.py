"""Counts, races, uninitialised reads, and the report."""
