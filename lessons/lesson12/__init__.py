"""More than one GPU."""
