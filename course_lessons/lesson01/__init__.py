"""Threads, blocks, grids."""
