"""What the gradient kernel of lesson 15 is shown beside: the package's step, PyTorch's gradient."""

from course.checks.beside import Launch, Rivals
from course.checks.exercises import Case
from course.kernels.softmax import backward


def _two_passes(dy, y, dx):
    return [Launch(backward.softmax_backward_two_passes, y.shape[0], backward.THREADS, (dy, y, dx))]


def of_gradient(timed: Case) -> Rivals:
    """The package's step of two passes, a block a row, and PyTorch's own backward pass."""
    return Rivals(
        package=_two_passes,
        torch=lambda torch, dy, y: torch.ops.aten._softmax_backward_data(dy, y, 1, dy.dtype),
        timed=timed,
    )
