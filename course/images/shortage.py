"""Shortages of the machine, which are no fault of an image: how errors tell of them."""

import errno


def _numbers(*names: str) -> frozenset[int]:
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


#: What there is more of when less is done at once: memory, open files, processes.
FEWER = _numbers("ENOMEM", "EMFILE", "ENFILE", "EAGAIN", "ENOBUFS")
#: Those, and what is not: space on a disk, a file system that answers.
ALL = FEWER | _numbers(
    "ENOSPC", "EDQUOT", "ENOLCK", "ESTALE", "ETIMEDOUT", "ENOTCONN", "EHOSTDOWN", "EHOSTUNREACH",
    "ENETDOWN", "ENETUNREACH",
)  # fmt: skip
#: How libraries say it that have no type of their own for it: Pillow, zlib, CUDA's, PyTorch.
WORDS = (
    "out of memory", "out_of_memory", "outofmemory", "memoryallocation", "memoryerror",
    "not enough memory", "allocate memory", "memory may have run out", "start new thread",
)  # fmt: skip


def is_shortage(error: BaseException | None, numbers: frozenset[int] = ALL) -> bool:
    """Whether an exception, or one that it came of, tells of a shortage of these numbers."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # an error may come of itself
        seen.add(id(error))
        number = getattr(error, "errno", None)
        if isinstance(error, MemoryError) or number in numbers:
            return True
        said = f"{type(error).__name__} {getattr(error, 'reason', error)}".lower()
        # an error of the system has its file's name in it, which may be any words
        if number is None and any(words in said for words in WORDS):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
