"""``python -m warpsim program.py``: run a Numba-CUDA program on the simulator."""

import argparse
import sys

from warpsim import program

USAGE_ERROR = 2


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str):
        self.exit(USAGE_ERROR, f"{self.prog}: error: {message} (--help shows what is possible)\n")


def main(words: list[str] | None = None) -> int:
    """Run a program and return the exit status; a wrong command line is one line and 2."""
    parser = _Parser(
        prog="python -m warpsim",
        description=program.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    program.add_options(parser)
    try:
        return program.run(parser.parse_args(words))
    except program.BadUsage as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
