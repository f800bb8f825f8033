"""Reuse, reuse, reuse."""
