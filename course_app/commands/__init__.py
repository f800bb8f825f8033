"""Commands of `python -m course`: their options, what they print at the end, how they stop."""
