"""A thousand images."""
