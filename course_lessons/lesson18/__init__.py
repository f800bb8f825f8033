"""Lesson 18: a vision transformer of the student's kernels, from patches to scores."""
