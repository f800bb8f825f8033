"""Measuring honestly."""
