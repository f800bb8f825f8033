"""Pictures of a trace."""

import importlib.util

if importlib.util.find_spec("matplotlib") is None:
    raise ModuleNotFoundError(
        "pictures need Matplotlib, which is not installed: python -m pip install matplotlib",
        name="matplotlib",
    )
