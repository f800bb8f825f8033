"""Where the course's data lies: in a clone beside the package, in an installed wheel inside it."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_path(*parts: str) -> Path:
    """Return the path of a file or folder that ships with the course.

    Parameters
    ----------
    *parts
        Names below ``data/``, as in ``data_path("measurements", "h200-copy.csv")``. None gives
        the folder itself.

    Returns
    -------
    pathlib.Path
        An existing path.

    Raises
    ------
    FileNotFoundError
        If there is no such file; the message lists what lies in the nearest folder that exists.
    """
    candidates = (_PACKAGE / "data", _PACKAGE.parent / "data")
    root = next((folder for folder in candidates if folder.is_dir()), None)
    if root is None:
        raise FileNotFoundError(
            "the course's data folder is missing; install the package again with pip, "
            "or work in a complete clone of the repository"
        )
    path = root.joinpath(*parts)
    if path.exists():
        return path
    nearest = path.parent
    while not nearest.is_dir():
        nearest = nearest.parent
    names = ", ".join(sorted(entry.name for entry in nearest.iterdir())) or "nothing"
    folder = "/".join(("data", *nearest.relative_to(root).parts))
    raise FileNotFoundError(
        f"the course has no data file {'/'.join(parts)!r}; in {folder} there is: {names}"
    )
