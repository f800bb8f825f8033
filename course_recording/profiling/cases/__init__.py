"""Kernels whose counters a GPU read, with their launches and arguments."""
