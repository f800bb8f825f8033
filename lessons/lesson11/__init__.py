"""The decomposition itself."""
