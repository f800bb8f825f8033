"""On the path, this hides the course: `PYTHONPATH=tests/alone python -m pytest tests/warpsim`."""

import sys

# what is None here cannot be imported, nor found
sys.modules.update(dict.fromkeys(("course", "lessons", "recording", "tools")))
