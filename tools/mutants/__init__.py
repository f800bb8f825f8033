"""Mutants of every exercise's own solution, which must fail, and rewrites of it, which must pass.

python -m tools.mutants                      all exercises: a row each, status 1 for a hole
python -m tools.mutants 4 tile-order --show  a lesson, an exercise; what survived, as text
python -m tools.mutants 4 --kinds guards barriers --most 12
"""
