"""Checks."""


def problems(html):
    """None yet."""
    return []
