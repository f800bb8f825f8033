"""Reports of traced launches, and their pictures."""
