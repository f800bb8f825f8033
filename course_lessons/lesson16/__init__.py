"""A VAE from your own kernels."""
