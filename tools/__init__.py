"""What builds the notebooks, the badges and the set-up. Nothing of the package imports it."""
