"""An image from its SVD."""
