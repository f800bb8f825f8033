"""What the generator cannot judge, each with the reason."""

#: Exercises of which no mutants of several kinds can be made, or too few rewrites.
EXERCISES = {
    "unseen-kernels": "it takes no arguments and returns a table of words",
    "softmax-both-ways": "it calls what is given, and computes nothing itself",
    "one-wgmma": "it is one instruction after the other: only names can be others",
}
#: Answers by exercise and kind: a line that they have in place of the solution's, and the reason.
ANSWERS: dict[tuple[str, str], dict[str, str]] = {}
