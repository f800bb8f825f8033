"""python -m warpsim program.py: programs as strangers write them, unchanged, and how they end."""

import builtins
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warpsim.the_course import needs_course
from warpsim import program
from warpsim.__main__ import main as warpsim
from warpsim.host import gpus
from warpsim.run import kernel

ROOT = Path(__file__).resolve().parents[2]

SAXPY = """\
import sys
import numpy as np
from numba import cuda, float32


@cuda.jit
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = a * x[i] + y[i]


if __name__ == "__main__":
    x = np.arange(1000, dtype=np.float32)
    y = np.ones(1000, np.float32)
    out = cuda.device_array_like(x)
    saxpy[8, 128](float32(2), cuda.to_device(x), cuda.to_device(y), out)
    print(np.allclose(out.copy_to_host(), 2 * x + y), cuda.is_available(), sys.argv[1:])
"""

RACE = """\
import numpy as np
from numba import cuda, float32


@cuda.jit(device=True)
def put(s, t, value):
    s[t] = value


@cuda.jit
def shift(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    put(s, t, x[t])
    out[t] = s[63 - t]


for _ in range(3):
    shift[1, 64](np.ones(64, np.float32), np.empty(64, np.float32))
print("done")
"""

OUT_OF_BOUNDS = """\
import numpy as np
from numba import cuda


@cuda.jit
def fill(x):
    x[cuda.grid(1)] = 1


def launch():
    fill[1, 32](np.zeros(4))


launch()
"""


@pytest.fixture(autouse=True)
def the_usual_gpu(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", None)


@pytest.fixture
def run(tmp_path, capsys):
    """Run a program in this process: the status, stdout and stderr."""

    def run(text, *words, before=(), command=warpsim):
        path = tmp_path / "program.py"
        path.write_text(text, encoding="utf-8")
        untouched = builtins.__import__, sys.modules["__main__"], sys.argv, list(sys.path)
        status = command([*before, str(path), *words])
        assert (builtins.__import__, sys.modules["__main__"], sys.argv, sys.path) == untouched
        assert kernel.onlookers == []
        return status, *capsys.readouterr()

    return run


def apart(folder, *words):
    """Run a command in a process of its own, as a user does."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


# --- programs ------------------------------------------------------------------------------------


def test_a_program_runs_and_gets_its_arguments(run):
    status, out, err = run(SAXPY, "--trace", "-n", "5", "--", "x")
    assert (status, err) == (0, "")
    assert out == "True True ['--trace', '-n', '5', '--', 'x']\n"


def test_the_module_may_have_any_name_and_helpers_import_it_too(run, tmp_path):
    (tmp_path / "their_helper.py").write_text("import numba.cuda\ncuda = numba.cuda\n")
    text = """\
import numba, numba.cuda as nc
import numpy as np
import numba.np.numpy_support
from numba import *
from their_helper import cuda


@nc.jit("void(float32[:])")
def count(x):
    x[numba.cuda.grid(1)] = nc.threadIdx.x + cuda.blockIdx.x


x = np.zeros(64, np.float32)
count[2, 32](x)
print(x[31], x[63], cuda is nc, numba.cuda is nc, numba.njit(lambda a: a + 1)(1), float32)
"""
    assert run(text) == (0, "31.0 32.0 True True 2 float32\n", "")


def test_random_numbers_are_those_of_numba(run):
    text = """\
import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32


@cuda.jit
def draw(states, out):
    i = cuda.grid(1)
    out[i] = xoroshiro128p_uniform_float32(states, i)


out = np.zeros(1024, np.float32)
draw[8, 128](create_xoroshiro128p_states(1024, seed=1), out)
print(0.45 < out.mean() < 0.55, len(set(out)) > 1000)
"""
    assert run(text) == (0, "True True\n", "")


def test_vectorize_and_guvectorize_are_the_simulators_where_the_target_is_cuda(run):
    text = """\
import numpy as np
from numba import cuda, guvectorize, vectorize


@vectorize(["float32(float32, float32)"], target="cuda")
def mean(a, b):
    return (a + b) / 2


@vectorize
def more(a):
    return a + 1


@guvectorize(["void(float32[:], float32[:])"], "(n)->(n)", target="cuda")
def flip(x, out):
    for i in range(x.size):
        out[i] = x[x.size - 1 - i]


x = np.arange(4, dtype=np.float32)
print(mean, mean(x, x + 2), more(x), flip(x), cuda.reduce(lambda a, b: a + b)(x))
"""
    expected = "<simulated CUDA ufunc mean> [1. 2. 3. 4.] [1. 2. 3. 4.] [3. 2. 1. 0.] 6.0\n"
    assert run(text) == (0, expected, "")


def test_events_and_streams_go_on_without_a_time_that_is_made_up(run):
    text = """\
import numpy as np
from numba import cuda
stream, start, end = cuda.stream(), cuda.event(), cuda.event()
start.record(stream)
x = cuda.to_device(np.ones(3), stream=stream)
end.record(stream)
end.synchronize()
stream.synchronize()
print(cuda.event_elapsed_time(start, end), start.elapsed_time(end), x.copy_to_host(stream=stream))
"""
    status, out, err = run(text)
    assert (status, out) == (0, "nan nan [1. 1. 1.]\n")
    assert err.count("NaN") <= 1  # said once in a process


def test_the_gpu_is_the_chosen_one(run):
    text = "from numba import cuda\nprint(cuda.get_current_device().name)\n"
    assert run(text, before=["--gpu", "h200"])[:2] == (0, "H200 (simulated)\n")


NO_MACHINE_CODE = "it makes no machine code, which takes CUDA's compiler"


@pytest.mark.parametrize(
    "line, lacks",
    [
        ("import numba.cuda.nvvmutils", "numba.cuda.nvvmutils: {}"),
        ("from numba import cuda; cuda.get_ipc_handle", "numba.cuda.get_ipc_handle: {}"),
        ("from numba.cuda.libdevice import nanf", "numba.cuda.libdevice.nanf"),
        ("import importlib; importlib.import_module('numba.cuda.codegen')", "numba.cuda.codegen"),
        ("from numba.cuda.random import nothing", "numba.cuda.random.nothing"),
        ("from numba import cuda; cuda.compile_ptx(None, ())", "numba.cuda.compile_ptx: {}"),
        ("from numba_cuda_mlir import cuda; cuda.simulator", "numba_cuda_mlir.cuda.simulator"),
        ("import numba_cuda_mlir.lowering", "numba_cuda_mlir.lowering: it makes no machine code"),
        ("from numba_cuda_mlir.types import f8E4M3", "numba_cuda_mlir.types.f8E4M3"),
        (
            "from numba_cuda_mlir import cuda; cuda.float16x2",
            "numba_cuda_mlir.cuda.float16x2: take float16 numbers one by one",
        ),
        (
            "from numba_cuda_mlir.cuda import vectorize",
            "numba_cuda_mlir.cuda.vectorize: numba_cuda_mlir has none, either",
        ),
    ],
)
def test_what_the_simulator_lacks_is_refused_by_a_sentence(run, line, lacks):
    status, _, err = run(line)
    assert status == 1
    of_memory = "get_ipc" in line
    why = "no other process can reach its memory" if of_memory else NO_MACHINE_CODE
    lacks = lacks.format(why)
    assert err.endswith(f"Error: the simulator has no {lacks}\n")
    assert err.count("File ") == 1


SUCCESSORS = """
import numpy as np
import numba_cuda_mlir.cuda as named
from numba_cuda_mlir import carray, cuda, types
from numba_cuda_mlir.cuda.cudadrv.devicearray import DeviceNDArray
from numba_cuda_mlir.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32
from numba_cuda_mlir.errors import TypingError
from numba_cuda_mlir.numba_cuda.types import Array

assert named is cuda and (types.i8, types.f32) == (types.int8, types.float32)


@cuda.jit
def turn(x, states, out):
    s, t = cuda.shared_array(32, types.f32, alignas=16), cuda.threadIdx.x
    s[t] = cuda.ldcg(x, t)
    cuda.syncthreads()
    cuda.stcs(out, t, s[31 - t])
    x[t] = xoroshiro128p_uniform_float32(states, t)


x, out = cuda.to_device(np.arange(32, dtype=np.float32)), np.zeros(32, np.float32)
turn[1, 32](x, create_xoroshiro128p_states(32, seed=1), out)
print(type(x) is DeviceNDArray, out[:3], 0 < x.copy_to_host().min() < 1)


@cuda.jit
def lacking(x):
    x[0] = CALL


try:
    lacking[1, 1](x)
except TypingError as error:
    print(str(error).splitlines()[0])
"""
LACKING = ": of PTX it runs what warpsim.ptx has, such as load4"


@pytest.mark.parametrize(
    "call, name", [("cuda.vector.load(x, 0, 4)", "vector"), ("cuda.inline_ptx('')", "inline_ptx")]
)
def test_a_program_may_import_numbas_successor(run, call, name):
    status, out, err = run(SUCCESSORS.replace("CALL", call), before=["--trace"])
    why = f"the simulator has no numba_cuda_mlir.cuda.{name}{LACKING}"
    assert (status, out) == (0, f"True [31. 30. 29.] True\n{why}\n"), err


# --- what is found -------------------------------------------------------------------------------


def test_a_race_is_found_once_with_its_line_and_its_launches(run, tmp_path):
    status, out, err = run(RACE, before=["--trace"])
    assert (status, out) == (1, "done\n")
    head, place, *_ = err.splitlines()
    assert head == "warpsim: 1 finding in 3 launches"
    path = tmp_path / "program.py"
    assert place == f"{path}:15: race in shift, 3 launches: s[63 - t]"
    assert RACE.splitlines()[14].strip() == "out[t] = s[63 - t]"


def test_a_finding_in_a_device_function_has_that_functions_line(run, tmp_path):
    status, _, err = run(RACE.replace("s[t] = value", "s[t + 1] = value"), before=["--trace"])
    assert status == 1
    assert f"{tmp_path / 'program.py'}:7: out-of-bounds in shift, 3 launches: s[t + 1]" in err


def test_a_finding_in_a_librarys_function_has_the_line_that_calls_it(run, tmp_path):
    text = """\
import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_next


@cuda.jit
def draw(states, out):
    i = cuda.grid(1)
    out[i] = xoroshiro128p_next(states, i + 1)


draw[1, 32](create_xoroshiro128p_states(32, seed=1), np.zeros(32, np.uint64))
"""
    status, _, err = run(text, before=["--trace"])
    assert status == 1
    assert f"{tmp_path / 'program.py'}:9: out-of-bounds in draw, 1 launch: out[i] = " in err


def test_findings_as_json_are_apart_from_what_the_program_prints(run, tmp_path):
    file = tmp_path / "found.json"
    status, out, _ = run(RACE, before=["--json", str(file)])
    assert (status, out) == (1, "done\n")
    told = json.loads(file.read_text(encoding="utf-8"))
    assert not list(tmp_path.glob("*.part"))
    (found,) = told["findings"]
    assert told["launches"] == found["launches"] == 3
    assert (found["kind"], found["kernel"], found["line"]) == ("race", "shift", 15)
    assert found["error"] and Path(found["file"]) == tmp_path / "program.py"
    assert found["message"].startswith("Thread (0, 0, 0) of block (0, 0, 0) reads s[63]")


def test_kernels_of_one_source_and_launches_of_many_threads_count_together(run):
    text = """\
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from numba import cuda


def make():
    @cuda.jit
    def fill(x):
        x[cuda.grid(1) + 1] = 1

    return fill


with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda n: make()[1, 32](np.zeros(32)), range(12)))
"""
    status, _, err = run(text, before=["--trace"])
    assert status == 1
    assert err.startswith("warpsim: 1 finding in 12 launches\n")
    assert ":9: out-of-bounds in fill, 12 launches: x[cuda.grid(1) + 1]\n" in err


def test_costs_alone_are_no_errors(run):
    wide = SAXPY.replace("a * x[i]", "2.0 * x[i]")
    status, _, err = run(wide, before=["--trace"])
    assert status == 0
    assert ":10: float64 in saxpy, 1 launch" in err


@pytest.mark.parametrize("options", [["--trace"], ["--all"]])
def test_errors_come_first_and_costs_by_line_ten_unless_all_are_asked_for(run, options, tmp_path):
    lines = [f"    y[i] = x[32 * i + {k}] * {k}.5 + x[64 * i]" for k in range(12)]
    text = "\n".join(
        ["import numpy as np", "from numba import cuda", "@cuda.jit", "def many(x, y):"]
        + ["    i = cuda.grid(1)", *lines, "    y[0] += i"]
        + ["many[1, 32](np.zeros(4096, np.float32), np.zeros(32, np.float32))"]
    )
    status, _, err = run(text, before=options)
    heads = [line for line in err.splitlines() if line.startswith((str(tmp_path), "..."))]
    assert status == 1 and ":18: race in many" in heads[0]
    assert heads[1].endswith(":6 in many: float64 and uncoalesced")
    if options == ["--all"]:
        assert len(heads) == 14 and "more: " not in err
    else:
        assert len(heads) == 11 and heads[-1] == "... and 4 more: --all prints them"


def test_a_program_without_findings_ends_well(run):
    assert run(SAXPY, before=["--trace"])[::2] == (0, "warpsim: no findings in 1 launch\n")


def test_the_example_of_the_readme_says_what_it_shows(tmp_path):
    text = (ROOT / "warpsim/README.md").read_text(encoding="utf-8")
    text = text.split("## Somebody's program, as it is\n")[1]
    (tmp_path / "turn.py").write_text(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1])
    shown = re.search(r"```text\n\$ python -m (.*?)\n(.*?)```", text, re.DOTALL)
    done = apart(tmp_path, *shown[1].split())
    assert done.returncode == 1
    assert done.stdout + done.stderr == shown[2]


# --- how it ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize("code, status", [("3", 3), ("", 0), ("None", 0), ("'no data'", 1)])
def test_the_status_is_the_programs_own(run, code, status):
    assert run(f"import sys\nsys.exit({code})")[0] == status


def test_an_exception_shows_the_programs_frames_alone(run, tmp_path):
    status, _, err = run(OUT_OF_BOUNDS)
    path = tmp_path / "program.py"
    places = [line.strip() for line in err.splitlines() if line.startswith("  File")]
    assert status == 1
    assert places == [
        f'File "{path}", line 14, in <module>',
        f'File "{path}", line 11, in launch',
    ]
    assert "OutOfBounds: fill: out-of-bounds" in err
    assert err.endswith(f"warpsim: that line is {path}:7\n")


def test_with_trace_the_program_goes_on_and_what_raised_later_is_shown_too(run):
    status, _, err = run(OUT_OF_BOUNDS + "raise ValueError('later')\n", before=["--trace"])
    assert status == 1
    assert err.index("ValueError: later") < err.index("out-of-bounds in fill, 1 launch")


def test_nothing_of_the_runner_reaches_the_program(run):
    text = """\
def double(x: int): return 2 * x
print(double.__annotations__, sorted(name for name in globals() if name[0] != "_"))
class Theirs(Exception): place = 1
raise Theirs
"""
    status, out, err = run(text)
    assert (status, out) == (1, "{'x': <class 'int'>} ['double']\n")
    assert err.endswith("Theirs\n")


def test_a_syntax_error_is_the_programs(run):
    status, _, err = run("x = (\n")
    assert status == 1
    assert 'program.py", line 1' in err and "Traceback" not in err


def test_a_user_who_stops_it_gets_130(run):
    assert run("raise KeyboardInterrupt")[0] == 130


@pytest.mark.parametrize("command", ["warpsim", pytest.param("course", marks=needs_course)])
@pytest.mark.parametrize(
    "words, why",
    [
        (["nowhere.py"], "'nowhere.py': No such file"),
        (["--gpu", "K80", __file__], "no GPU 'K80' to simulate; known: Tesla T4"),
        (["--seconds", "0", __file__], "--seconds: '0' is no number above 0"),
        (["--json", "no/where.json", __file__], "where.json': No such file"),
        (["--json", ".", __file__], "'.': Is a directory"),
        ([], "required: PROGRAM"),
    ],
)
def test_a_wrong_command_line_is_one_line(capsys, command, words, why):
    main = importlib.import_module(f"{command}.__main__").main
    try:
        status = main(words if command == "warpsim" else ["run", *words])
    except SystemExit as error:  # argparse's
        status = error.code
    _, err = capsys.readouterr()
    assert status == 2
    assert why in err and err.count("\n") == 1


def test_an_endless_kernel_is_ended(tmp_path):
    text = """\
import numpy as np
from numba import cuda


@cuda.jit
def count(x):
    while x[cuda.grid(1)] >= 0:
        x[cuda.grid(1)] += 1


print("begun", flush=True)
count[16, 1024](np.zeros(16384))
print("never")
"""
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    done = apart(tmp_path, "warpsim", "--seconds", "2", "program.py")
    assert done.returncode == 124
    assert done.stdout in ("begun\n", "")  # a busy machine may not come so far
    assert done.stderr == "warpsim: the program was ended after --seconds 2\n"


def test_what_was_found_before_the_limit_is_told(monkeypatch, capsys):
    ends = []
    monkeypatch.setattr(program.os, "_exit", ends.append)
    program._end(0.5, lambda status: print(f"findings, {status}", file=sys.stderr))
    assert ends == [124]
    told = "findings, 124\nwarpsim: the program was ended after --seconds 0.5\n"
    assert capsys.readouterr().err == told


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
def test_a_program_that_takes_too_much_memory_is_told(tmp_path):
    text = "import numpy as np\nnp.ones(1 << 20)\nprint('small')\nnp.ones(1 << 30)\n"
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    done = apart(tmp_path, "warpsim", "--memory", "500", "program.py")
    assert (done.returncode, done.stdout) == (124, "small\n")
    assert done.stderr.endswith("warpsim: the program ran into --memory 500\n")


@pytest.mark.parametrize(
    "command", [["warpsim"], pytest.param(["course", "run"], marks=needs_course)]
)
def test_a_process_finds_what_python_gives_a_program(tmp_path, command):
    text = """\
import sys, os
import pickle
class Thing: pass
print(__name__, os.path.isabs(__file__), sys.argv, os.path.samefile(sys.path[0], "inner"))
print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, "--help" in sys.argv)
"""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "program.py").write_text(text, encoding="utf-8")
    done = apart(tmp_path, *command, "inner/program.py", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "__main__ True ['inner/program.py', '--help'] True\nTrue True\n"
