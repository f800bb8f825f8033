"""The command `doctor`: prints what `doctor` of the course finds."""

import argparse

from course.diagnosis.report import doctor

HELP = "Report versions, driver and GPUs: what works, what does not, what to do."


def add_options(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(arguments: argparse.Namespace) -> None:
    """Print what the doctor finds."""
    print(doctor())
