"""Instructions that Numba lacks: their code, the types of their arguments, what runs them."""
