"""Limits that others set for this process: control groups, Slurm, the system's process limits.

A control group bounds all processes in it and in those below, so that the least of its own limit
and of those above counts. /proc/self/cgroup says which group of each hierarchy a process is in,
/proc/self/mountinfo where the system shows them; a container may show a part, from its own group
on, or give that another name (cgroups(7), cgroup_namespaces(7)).
"""

import os
import re
from collections import defaultdict
from pathlib import Path, PurePosixPath

ROOT = Path("/")  # what /proc and /sys are below
#: Slurm's variables of MiB for each node, core and GPU, and how many of them a node has; sbatch(1).
SLURM_MEMORY = {
    "SLURM_MEM_PER_NODE": (),
    "SLURM_MEM_PER_CPU": ("SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK"),
    "SLURM_MEM_PER_GPU": ("SLURM_GPUS_ON_NODE",),
}
SLURM_CORES = ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def of_memory() -> list[int]:
    """Bytes that all of a job's or a container's processes may have together, or each of them."""
    found = _of_a_process()
    for folder in _groups("memory"):
        names = "memory.max", "memory.high", "memory.limit_in_bytes"
        found += [_number(_read(folder / name)) for name in names]
        above = re.search(r"^hierarchical_memory_limit (\d+)$", _read(folder / "memory.stat"), re.M)
        found.append(_number(above[1]) if above else None)
    for name, counts in SLURM_MEMORY.items():
        given = re.fullmatch(r"(\d+)([KMGT]?)", os.environ.get(name, "").strip().upper())
        if given:
            count = next(filter(None, map(_variable, counts)), 1)
            found.append(int(given[1]) * UNITS[given[2] or "M"] * count)
    return [limit for limit in found if limit]


def of_cores() -> list[float]:
    """CPU time, in cores, that all of a job's or a container's processes may have together."""
    found = []
    for folder in _groups("cpu"):
        quota, period = (_read(folder / "cpu.max").split() + ["", ""])[:2]
        if not quota:
            quota, period = (_read(folder / f"cpu.cfs_{its}_us") for its in ("quota", "period"))
        quota, period = _number(quota), _number(period)
        found.append(quota / period if quota and period else None)
    found.append(next(filter(None, map(_variable, SLURM_CORES)), None))
    return [limit for limit in found if limit]


def _of_a_process() -> list[int | None]:
    """Bytes of memory that each process may have (ulimit -v and -d)."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    numbers = (getattr(resource, name, None) for name in ("RLIMIT_AS", "RLIMIT_DATA"))
    soft = [resource.getrlimit(number)[0] for number in numbers if number is not None]
    return [limit for limit in soft if limit != resource.RLIM_INFINITY]


def _groups(controller: str) -> list[Path]:
    """The folders of this process's control groups that have a controller, and of those above."""
    own = {}
    for line in _read(ROOT / "proc/self/cgroup").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if not controllers or controller in controllers.split(","):
            own["cgroup" if controllers else "cgroup2"] = PurePosixPath(path)
    inside, tops = defaultdict(list), defaultdict(list)
    for line in _read(ROOT / "proc/self/mountinfo").splitlines():
        place, _, about = (part.split() for part in line.partition(" - "))
        if len(place) < 5 or len(about) < 3 or about[0] not in own:
            continue
        if about[0] == "cgroup" and controller not in about[2].split(","):
            continue
        top, mounted = map(_unescaped, place[3:5])
        folder, group = ROOT / mounted.lstrip("/"), own[about[0]]
        if group.is_relative_to(top) and ".." not in group.parts:
            below = group.relative_to(top)
            inside[about[0]] += [folder / each for each in (below, *below.parents)]
        else:
            tops[about[0]].append(folder)
    # where the mounts do not show the process's own group, their topmost folder has to do
    return [folder for kind in own for folder in inside[kind] or tops[kind]]


def _unescaped(path: str) -> str:
    """A path of mountinfo, in which blanks and their like are three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path)


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="surrogateescape").strip()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    """A limit; None where the text says that there is none, or something else."""
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None


def _variable(name: str) -> int | None:
    return _number(os.environ.get(name, "").strip())
