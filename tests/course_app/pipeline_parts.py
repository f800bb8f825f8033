"""Images, fakes and comparisons for the tests of the pipeline."""

import csv
import threading

import numpy as np
from PIL import Image

from course import __main__ as command_line

TIMEOUT = 60  # seconds after which a test says that the pipeline hangs
STAGES = {"decode", "factorise", "rebuild", "judge", "save"}


def some_images(folder, count, side=20):
    """A folder of so many different pictures."""
    folder.mkdir()
    down, across = np.mgrid[0 : 1 : side * 1j, 0 : 1 : side * 1j]
    for number in range(count):
        picture = np.sin(3 + number * down) * np.cos(2 * across + number * down * across)
        grey = (127 * (1 + picture)).astype(np.uint8)
        Image.fromarray(grey).save(folder / f"image{number:02}.png")
    return folder


def contents(out):
    """Every file below a folder, hidden ones included, by name."""
    return {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }


def rows_of(out):
    with open(out / "quality.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def draw_quickly(qualities, ranks, shown, path):
    """In place of the grid's drawing: the same pictures, as they are."""
    path.write_bytes(b"".join(cell.tobytes() for cells in shown for cell in cells))


def at_work():
    """Names of the pipeline's threads that live."""
    return [its.name for its in threading.enumerate() if its.name.startswith("course_")]


def call(capfd, *words):
    """Run the command in this process; return status, stdout, stderr."""
    try:
        status = command_line.main([str(word) for word in words])
    except SystemExit as exit:
        status = exit.code
    return status, *capfd.readouterr()


def in_time(work):
    """Do it in this thread, and fail, not hang, when it takes too long."""
    main, late = threading.main_thread(), threading.Event()

    def say():
        import faulthandler

        late.set()
        faulthandler.dump_traceback(all_threads=True)
        import _thread

        _thread.interrupt_main()

    timer = threading.Timer(TIMEOUT, say)
    timer.daemon = True
    timer.start()
    try:
        return work()
    except KeyboardInterrupt:
        if late.is_set():
            raise TimeoutError(f"the pipeline hangs, in {main.name}") from None
        raise
    finally:
        timer.cancel()


class Cuda:
    """Numba's error of that name, which can be imported only where there is numba-cuda."""

    class CudaAPIError(Exception):
        def __init__(self, code, message):
            super().__init__(code, message)
            self.code = code
