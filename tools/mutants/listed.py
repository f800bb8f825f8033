"""What the generator cannot judge, each with the reason."""

#: Exercises of which no mutants of several kinds can be made.
EXERCISES = {"unseen-kernels": "it takes no arguments and returns a table of words"}
#: Answers by exercise and kind: a line that they have in place of the solution's, and the reason.
ANSWERS: dict[tuple[str, str], dict[str, str]] = {}
