"""Lesson 19: what carries over to other programs, other languages, other machines."""
