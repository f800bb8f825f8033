"""One kernel, two versions of the course: the first cell installs one, is used, then the next one.

python reinstall.py NOTEBOOK EARLIER LATER; the last two are what pip installs, git+file://...@commit.
Runs in an environment as Colab's, with a stand-in for google.colab.
"""

import importlib
import json
import os
import pkgutil
import sys
import time
from importlib import metadata
from pathlib import Path


def first_cell(notebook, source):
    """Run the first code cell of a notebook, as in Colab, with another source."""
    cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    code = next(cell for cell in cells if cell["cell_type"] == "code")
    os.environ["COURSE_SOURCE"] = source
    start = time.perf_counter()
    exec("".join(code["source"]), {})
    print(f"{source}: {time.perf_counter() - start:.1f} s")


def packages():
    """Name what the installed wheel brings, from its record, and not as course.colab does."""
    record = metadata.distribution("course").read_text("RECORD")
    files = [line.split(",")[0] for line in record.splitlines()]
    return {file.split("/")[0] for file in files if file.endswith("/__init__.py")}


def use(names):
    """Import each package, one module of it, and run a kernel; return what is loaded of them."""
    for name in names:
        package = importlib.import_module(name)
        modules = [m.name for m in pkgutil.iter_modules(package.__path__) if m.name.isidentifier()]
        for module in [m for m in modules if not m.startswith("_")][:1]:
            importlib.import_module(f"{name}.{module}")
    import numpy

    from course import cuda, images

    @cuda.jit
    def double(x):
        row = cuda.grid(1)
        if row < x.size:
            x[row] *= 2

    numbers = cuda.to_device(numpy.arange(64, dtype=numpy.float32))
    double[2, 32](numbers)
    assert numbers.copy_to_host()[63] == 126
    assert images.photograph("camera").any()
    return {name: module for name, module in sys.modules.items() if name.split(".")[0] in names}


notebook, earlier, later = sys.argv[1:]
first_cell(notebook, earlier)
old_packages = packages()
old = use(old_packages)
sys.modules["course.gone"] = sys.modules["course"]  # as a module that the later version has not
others = {name for name in sys.modules if name.split(".")[0] not in old_packages}
first_cell(notebook, later)
new_packages = packages()
left = {name for name in sys.modules if name.split(".")[0] in old_packages | new_packages}
# what set_up itself needs may be loaded again, from the new files
stale = {name for name in left if sys.modules[name] is old.get(name)} | left & {"course.gone"}
new = use(new_packages)
stale |= {name for name, module in new.items() if module is old.get(name)}
missing = {
    name
    for name, module in new.items()
    if getattr(module, "__file__", None) and not Path(module.__file__).is_file()
}
installed = json.loads(metadata.distribution("course").read_text("direct_url.json"))
commit = installed.get("vcs_info", {}).get("commit_id")
for wrong, what in (
    (stale, "modules of the earlier version are still loaded"),
    (missing, "modules are loaded whose files are gone"),
    (others - set(sys.modules), "modules of others were dropped"),
    (new_packages - {name.split(".")[0] for name in new}, "packages do not load"),
    ({commit} if commit and not later.endswith(commit) else (), "another commit is installed"),
):
    if wrong:
        raise SystemExit(f"{what}: {', '.join(sorted(wrong))}")
print(f"{sorted(old_packages)} made room for {sorted(new_packages)}, {len(new)} modules in use")
