"""What the kernels of lesson 06's exercises are shown beside: steps of the ladder, the product."""

from course.checks.beside import Launch, Rivals
from course.checks.exercises import Case
from course.kernels.reconstruct.ladder import LADDER
from course_lessons.cases import drawn, empty, factors
from course_lessons.lesson06 import ladder

SHAPE = "x".join(map(str, ladder.SHAPE))


def _by_torch(torch, u, s, vt, k):
    return (u[:, :k] * s[:k]) @ vt[:k]


def _bytes(u, s, vt, k, out):
    rows, columns = out.shape
    return 4 * (rows * k + k + k * columns + rows * columns)


def of_step(name: str, tile: tuple[int, int, int | tuple[int, int]]) -> Rivals:
    """The package's step of that name, timed with the ladder's size.

    Parameters
    ----------
    name : str
        As in `LADDER`.
    tile : (int, int, int or tuple)
        Rows and columns of a block's pixels, and its threads, of the student's kernel.
    """

    def package(u, s, vt, k, out):
        step = LADDER[name]
        return [Launch(step.kernel, step.grid(*out.shape), step.block, (u, s, vt, k, out))]

    down, across, threads = tile
    rows, columns, k = ladder.SHAPE
    arguments = drawn(**factors(rows, columns, k), k=k, out=empty(rows, columns))
    grid = -(-columns // across), -(-rows // down)
    of_ladder = {"subject": "reconstruct", "kernel": "reconstruct", "shape": SHAPE}
    return Rivals(
        package=package,
        torch=_by_torch,
        bytes=_bytes,
        operations=lambda k, out, **_: 2 * k * out.size,
        timed=Case(f"{rows} x {columns}, k = {k}", arguments, threads, grid),
        recorded={
            "package": of_ladder | {"variant": name},
            "CuPy": of_ladder | {"variant": "cupy"},
        },
    )
