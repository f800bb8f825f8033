"""Your kernel inside PyTorch."""
