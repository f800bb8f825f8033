"""Kernels whose counters were read on a GPU, with their launches and arguments."""
