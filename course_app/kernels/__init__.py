"""Kernels that this program alone launches."""
