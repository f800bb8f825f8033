"""Figures recorded on a real GPU, beside peers and profilers."""
