"""What the kernels of lesson 10's exercises are shown beside: the package's steps, PyTorch's."""

from course.checks.beside import Launch, Rivals
from course.checks.exercises import Case
from course.kernels import reduce, softmax
from course.kernels.steps import ceil_div, configured, one_call

FLOAT32 = {"subject": "reduce", "dtype": "float32"}
THREADS = 256


def of_row_sum(timed: Case) -> Rivals:
    """PyTorch's sum of each row; the package has no kernel for that alone."""
    return Rivals(torch=lambda torch, x: x.sum(1), operations=lambda x, out: x.size, timed=timed)


def _several(x, out):
    config, kind = reduce.CONFIGS["sm_90"], reduce.KINDS["sum"]
    kernel = reduce.several(kind, config, True)
    blocks = max(1, ceil_div(x.size, config.tile))
    return [
        Launch(reduce.fill, 1, 1, (out, kind.nothing)),
        Launch(kernel, blocks, config.threads, (x, out)),
    ]


def _several_on_gpu(x, out):
    calls = configured(reduce.LADDER.launches(x, out, kind="sum", method="several"))
    return one_call(calls, (x, out)), (x, out)


def of_sum(timed: Case) -> Rivals:
    """The package's step of the same name, which fills the sum's place first, and PyTorch's sum."""
    of_ladder = FLOAT32 | {"kernel": "sum", "shape": "1048576"}
    return Rivals(
        package=_several,
        called=_several_on_gpu,
        torch=lambda torch, x, out: x.sum(),
        operations=lambda x, out: x.size,
        timed=timed,
        recorded={
            "package": of_ladder | {"variant": "several"},
            "PyTorch": of_ladder | {"variant": "torch"},
        },
    )


def _online(x, out):
    return [Launch(softmax.online("float32", THREADS, True), x.shape[0], THREADS, (x, out))]


def of_softmax(timed: Case) -> Rivals:
    """The package's step of two readings, a block a row, and PyTorch's softmax."""
    of_ladder = FLOAT32 | {"kernel": "softmax", "shape": "4096x1024"}
    return Rivals(
        package=_online,
        torch=lambda torch, x: torch.softmax(x, 1),
        timed=timed,
        recorded={
            "package": of_ladder | {"variant": "online"},
            "PyTorch": of_ladder | {"variant": "torch"},
        },
    )
