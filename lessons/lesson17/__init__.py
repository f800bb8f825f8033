"""Tensor cores."""
