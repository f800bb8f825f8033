"""What only training needs: an optimiser, losses, random numbers."""
