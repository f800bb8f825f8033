"""Warps and coalescing."""
