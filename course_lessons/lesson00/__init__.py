"""The machine in front of you."""
