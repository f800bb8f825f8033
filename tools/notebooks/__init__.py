"""Lessons read, cut into cells, held to their format, sealed as notebooks."""
