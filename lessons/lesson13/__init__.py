"""Normalisation and fusion."""
