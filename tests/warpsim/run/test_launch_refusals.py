"""What the simulator refuses, and in which words."""

from __future__ import annotations

from contextvars import ContextVar

import numpy as np
import pytest
from numba import float32, types
from numba.core.errors import NumbaError, TypingError

from tests.texts import body_of
from warpsim import KernelError, Unsupported, cuda, trace
from warpsim.core import masks
from warpsim.host import gpus
from warpsim.run.launch import signatures_of


def arrays(*sizes):
    return [np.ones(size, np.float32) for size in sizes]


def test_out_of_bounds_names_array_index_line_and_thread_and_leaves_data_alone():
    @cuda.jit
    def shift(x, out):
        i = cuda.grid(1)
        out[i + 1] = x[i]

    x, out = arrays(64, 64)
    before = out.copy()
    x *= 2
    with pytest.raises(KernelError) as caught:
        shift[2, 32](x, out)
    finding = caught.value.finding
    assert finding.kind == "out-of-bounds"
    assert finding.line == 3
    assert finding.where == ((1, 0, 0), (31, 0, 0))
    assert "out[64]" in finding.message and "size 64" in finding.message
    assert "`i + 1` is one too large: the last index is 63" in finding.message
    assert np.array_equal(out, before)


def test_trace_drops_bad_stores_and_poisons_bad_loads():
    @cuda.jit
    def wild(x, y, out):
        i = cuda.grid(1)
        out[i] = x[i]
        if i < 3:
            y[i] = y[i + 10]

    x, out = arrays(20, 40)
    y = np.zeros(4, np.int32)
    report = trace(wild, 1, 40, x, y, out)
    assert {finding.kind for finding in report.findings if finding.is_error} == {"out-of-bounds"}
    assert np.isnan(out[20:]).all() and (out[:20] == 1).all()
    assert (y[:3] == np.iinfo(np.int32).max).all()


def test_negative_indices_wrap_as_in_numba_and_are_reported_as_a_cost():
    @cuda.jit
    def last(x, out):
        i = cuda.grid(1)
        out[i] = x[i - 1]

    x = np.arange(5, dtype=np.float32)
    out = np.zeros(5, np.float32)
    report = trace(last, 1, 5, x, out)
    assert list(out) == [4, 0, 1, 2, 3]
    (finding,) = [f for f in report.findings if f.kind == "negative-index"]
    assert not finding.is_error


def test_a_row_too_far_is_out_of_bounds_even_inside_the_allocation():
    @cuda.jit
    def beyond(x, out):
        i = cuda.grid(1)
        out[i] = x[0, i]

    with pytest.raises(KernelError, match=r"axis 1 of x has size\s+4"):
        beyond[1, 8](np.ones((4, 4), np.float32), np.zeros(8, np.float32))


def test_a_barrier_in_a_branch_is_an_error():
    @cuda.jit
    def branch(x):
        t = cuda.threadIdx.x
        if t < 10:
            x[t] = 1
            cuda.syncthreads()

    with pytest.raises(KernelError, match=r"10 of\s+the block's 32 threads") as caught:
        branch[1, 32](np.zeros(32, np.float32))
    assert caught.value.finding.kind == "barrier-divergence"


def test_a_barrier_after_an_early_return_is_right():
    @cuda.jit
    def early(x):
        t = cuda.threadIdx.x
        if t >= 10:
            return
        cuda.syncthreads()
        x[t] = 2

    x = np.zeros(32, np.float32)
    early[1, 32](x)
    assert x.sum() == 20


def test_a_barrier_that_whole_blocks_skip_is_right():
    @cuda.jit
    def some_blocks(x):
        if cuda.blockIdx.x % 2 == 0:
            cuda.syncthreads()
            x[cuda.blockIdx.x] = 1

    x = np.zeros(6, np.float32)
    some_blocks[6, 33](x)
    assert list(x) == [1, 0, 1, 0, 1, 0]


def test_shared_memory_read_before_it_is_written_is_reported():
    @cuda.jit
    def unset(out):
        tile = cuda.shared.array(32, float32)
        t = cuda.threadIdx.x
        if t < 16:
            tile[t] = 1
        cuda.syncthreads()
        out[t] = tile[t]

    report = trace(unset, 1, 32, np.zeros(32, np.float32))
    (finding,) = [f for f in report.findings if f.is_error]
    assert finding.kind == "uninitialised-read"
    assert finding.where.thread == (16, 0, 0)


def test_a_printed_finding_is_a_sentence_about_its_thread():
    @cuda.jit
    def beyond(out):
        out[cuda.grid(1)] = 1

    report = trace(beyond, 2, 8, np.zeros(10, np.float32))
    (finding,) = report.findings
    first, rest = str(finding).split("\n", 1)
    assert first == "out-of-bounds, line 2: out[cuda.grid(1)]"
    assert rest.strip().startswith("Thread (2, 0, 0) of block (1, 0, 0) writes out[10], but")
    assert " ".join(rest.split()) == finding.sentence
    assert finding.sentence in " ".join(str(report).split())
    with pytest.raises(KernelError, match=r"Thread \(2, 0, 0\) of block \(1, 0, 0\) writes out"):
        beyond[2, 8](np.zeros(10, np.float32))


def test_a_finding_of_no_thread_is_its_message_alone():
    @cuda.jit
    def double(out):
        out[cuda.grid(1)] *= 2.0

    (finding,) = trace(double, 1, 32, np.ones(32, np.float32)).findings
    assert finding.kind == "float64" and finding.where is None
    words = f"float64, line 2: {finding.code} {finding.message}"
    assert " ".join(str(finding).split()) == words


def refuses(kernel, *arguments, match, kind=TypingError):
    with pytest.raises(kind, match=match) as caught:
        kernel[1, 32](*arguments)
    return caught.value


def helper(value):
    return value


#: What a kernel cannot do: its parameters, its body, and the error's words, or its kind and words.
REFUSED = {
    "a shape that is an expression": (
        "x",
        "tile = cuda.shared.array((WIDTH, WIDTH + 1), float32)\ntile[0, 0] = x[0]",
        "(?s)compile-time constant.*line 2 of f",
    ),
    "a shape from an argument": (
        "x, n", "tile = cuda.local.array(n, float32)\ntile[0] = x[0]", "compile-time constant",
    ),
    "a float index": (
        "x", "x[cuda.grid(1) / 2] = 1", r"getitem\(array\(float32, 1d, C\), float64\)",
    ),
    "an operator of two types": ("x", 'x[0] = x[0] + "a"', "No implementation of function add"),
    "whole arrays": (
        "x, y", "z = x + y\nx[0] = z[0]",
        r"add\(array\(float32, 1d, C\), array\(float32, 1d, C\)\)",
    ),
    "a variable of two types": (
        "x, n", "if n > 1:\n    y = x\nelse:\n    y = 2\nx[0] = y", "Cannot unify",
    ),
    "an unknown name": ("x", "x[0] = nowhere", "'nowhere' is not defined"),
    "a plain function": ("x", "x[0] = helper(x[0])", r"@cuda.jit\(device=True\)"),
    "a value returned": ("x", "return x[0]", "must have void return type"),
    "an array chosen by thread": (
        "x, y", "i = cuda.grid(1)\nz = x\nif i > 3:\n    z = y\nz[i] = 1",
        (Unsupported, "an array is chosen by thread"),
    ),
    "a misspelt name of cuda": (
        "x", "x[cuda.gird(1)] = 1", r"no attribute 'gird'; did you mean cuda.grid\?",
    ),
    "a part left out": (
        "x", "x[cuda.threadIdx] = 1", "has the parts x, y, z: write cuda.threadIdx.x",
    ),
    "a function of NumPy": ("x", "x[0] = np.max(x)", "np.max is not available in a kernel"),
    "a method of an array": ("x", "x[0] = x.max()", r"no array method .max\(\)"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_kernel_cannot_do_is_refused_in_words(what):
    parameters, body, words = REFUSED[what]
    kind, words = words if isinstance(words, tuple) else (TypingError, words)
    kernel = cuda.jit(body_of(parameters, body, WIDTH=4, float32=float32, helper=helper, np=np))
    values = [3 if name == "n" else np.ones(32, np.float32) for name in parameters.split(", ")]
    refuses(kernel, *values, match=words, kind=kind)


@pytest.mark.parametrize(
    ("construct", "lines"),
    [
        ("With", "with open('x') as f:\n    pass"),
        ("Try", "try:\n    x[0] = 1\nexcept ValueError:\n    pass"),
        ("ListComp", "x[0] = [1 for i in range(3)][0]"),
        ("Lambda", "print(lambda a: a)"),
        ("Dict", "d = {1: 2}"),
        ("NamedExpr", "x[0] = (y := 1)"),
        ("JoinedStr", "print(f'{x[0]}')"),
    ],
)
def test_other_constructs_are_named_with_their_line(construct, lines):
    kernel = cuda.jit(body_of("x", f"i = 0\n{lines}"))
    error = refuses(kernel, *arrays(4), match=construct, kind=(Unsupported, TypingError))
    assert "line 3 of f" in str(error) or "line 4 of f" in str(error)
    assert isinstance(error, NumbaError)


def test_recursion_by_way_of_another_function_is_named():
    @cuda.jit(device=True)
    def deeper(x, n):
        return other(x, n - 1) if n > 0 else 0

    @cuda.jit(device=True)
    def other(x, n):
        return deeper(x, n)

    @cuda.jit
    def starts(x):
        x[0] = deeper(x, 3)

    refuses(starts, *arrays(4), match="recursion by way of other functions")


def test_kernels_without_source_say_what_to_do():
    with pytest.raises(Unsupported, match="source of <lambda> cannot be found"):
        cuda.jit(eval("lambda x: None"))[1, 1](np.ones(1))
    namespace: dict = {}
    exec("def f(x):\n    x[0] = 1\n", namespace)
    with pytest.raises(Unsupported, match="source of f cannot be found"):
        cuda.jit(namespace["f"])[1, 1](np.ones(1))


def test_an_endless_loop_is_stopped_with_its_line_and_the_lanes_still_in_it(monkeypatch):
    monkeypatch.setattr(masks, "STEP_LIMIT", ContextVar("STEP_LIMIT", default=1000))

    @cuda.jit
    def endless(x):
        i = cuda.grid(1)
        while x[i] < 2:
            if i > 4:
                x[i] += 1

    @cuda.jit
    def longer_than_the_limit(x):
        i = cuda.grid(1)
        while x[i] < 2:
            x[i] -= 1

    with pytest.raises(RuntimeError, match="line 3.*5 threads wait for ever"):
        endless[1, 32](np.zeros(32, np.float32))
    with pytest.raises(RuntimeError, match="line 3.*1,000 times and 32 threads"):
        longer_than_the_limit[1, 32](np.zeros(32, np.float32))


# ---------------------------------------------------------------------- launches
@cuda.jit
def touch(x):
    if cuda.grid(1) < x.size:
        x[cuda.grid(1)] += 1


@pytest.mark.parametrize(
    ("grid", "block", "words"),
    [
        (1, 1025, "1,025 threads"),
        (1, (64, 32), "2,048 threads"),
        (0, 32, "at least 1"),
        (1, (1, 1, 65), "third dimension is at most 64"),
        ((1, 70_000), 32, "65,535"),
        ((1, 1, 1, 1), 32, "1, 2 or 3 integers"),
    ],
)
def test_impossible_launches_are_refused(grid, block, words):
    with pytest.raises(ValueError, match=words):
        touch[grid, block](np.ones(4))


def test_a_fractional_grid_is_a_type_error():
    with pytest.raises(TypeError, match="must be a sequence of integers"):
        touch[4 / 2, 32](np.ones(4))


def test_a_launch_without_configuration_shows_the_syntax():
    with pytest.raises(ValueError, match=r"\[blockspergrid, threadsperblock\]"):
        touch(np.ones(4))
    with pytest.raises(ValueError, match="griddim and blockdim"):
        touch[32](np.ones(4))


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ([1.0, 2.0], "'x' is a list"),
        ("text", "'x' is a str"),
        (np.ones(3, ">f4"), r"\.astype"),
        (np.array(["a"]), "cannot take"),
    ],
)
def test_arguments_that_a_kernel_cannot_take_are_named(argument, words):
    with pytest.raises(TypeError, match=words):
        touch[1, 32](argument)


def test_the_number_of_arguments_is_checked():
    with pytest.raises(TypeError, match=r"touch takes 1 arguments \(x\), 2 given"):
        touch[1, 32](np.ones(3), 2)


def test_an_explicit_signature_is_kept():
    @cuda.jit("void(float32[:], float32)")
    def scale(x, a):
        if cuda.grid(1) < x.size:
            x[cuda.grid(1)] *= a

    x = np.ones(4, np.float32)
    scale[1, 32](x, 3)  # the integer becomes a float32
    assert (x == 3).all()
    with pytest.raises(TypeError, match="No matching definition"):
        scale[1, 32](np.ones(4), 3)
    with pytest.raises(TypeError, match=r"argument 'x' is array\(float64, 1d, C\), the signature"):
        trace(scale, 1, 32, np.ones(4), 3)
    trace(scale, 1, 32, x, 3)
    assert (x == 9).all()


def test_an_atomic_of_an_element_is_told_how_it_is_written():
    @cuda.jit
    def counts(x, at):
        cuda.atomic.add(x[at[0]], 0, 1)

    with pytest.raises(TypingError, match=r"is int32: write cuda.atomic.add\(x, at\[0\], 1\)"):
        counts[1, 1](np.zeros(4, np.int32), np.zeros(1, np.int32))


def test_a_trace_matches_the_signature_of_a_kernel_of_numba_cuda():
    numba_cuda = pytest.importorskip("numba.cuda")

    @numba_cuda.jit
    def double(x):
        x[0] *= 2

    @cuda.jit("void(float64[:, ::1])")
    def rows(x):
        x[0, 0] *= 2

    assert not signatures_of(double)
    double.overloads = {(types.float64[::1],): None}  # as compiled: here is no compiler
    double.disable_compile()
    trace(double, 1, 1, np.ones(1))
    with pytest.raises(
        TypeError, match=r"'x' is array\(int32, 1d, C\), the signature says array\(fl"
    ):
        trace(double, 1, 1, np.ones(1, np.int32))
    with pytest.raises(TypeError, match=r"F\), the signature says array\(float64, 2d, C\)"):
        trace(rows, 1, 1, np.ones((4, 4), order="F"))


def test_too_much_shared_memory_is_refused_for_the_gpu_in_question():
    @cuda.jit
    def big(x):
        tile = cuda.shared.array((128, 128), float32)
        tile[0, 0] = x[0]

    with pytest.raises(Unsupported, match="65,536 bytes"):
        big[1, 1](np.ones(1, np.float32))
    with pytest.raises(ValueError, match="80,000 bytes of dynamic shared memory: a Tesla T4"):
        touch[1, 32, 0, 80_000](np.ones(4))
    trace(touch, 1, 32, np.ones(4), dynamic_shared=80_000, gpu="H200")


def test_an_unknown_gpu_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="Tesla T4.*H200"):
        gpus.find("H20")


def test_kernel_names_say_so_on_the_host():
    with pytest.raises(TypeError, match="only inside a kernel"):
        cuda.syncthreads()
    with pytest.raises(TypeError, match="only inside a kernel"):
        cuda.atomic.add(np.zeros(1), 0, 1)


def test_writing_to_a_constant_array_is_refused():
    table = np.ones(4, np.float32)

    @cuda.jit
    def writes(x):
        table[0] = x[0]

    with pytest.raises(TypingError, match="Cannot modify readonly array.*a constant from outside"):
        writes[1, 1](*arrays(4))


def test_asserts_and_raises_count_under_debug():
    def body(x):
        i = cuda.grid(1)
        assert x[i] > 0, "negative"
        x[i] = 5

    x = np.array([1, -1, 1], np.float32)
    with pytest.raises(AssertionError, match=r"tid=\[1, 0, 0\] ctaid=\[0, 0, 0\]: negative"):
        cuda.jit(debug=True)(body)[1, 3](x)
    cuda.jit(body)[1, 3](x)
    assert list(x) == [5, -1, 5]


def test_printing_looks_as_cudas_printf(capsys):
    @cuda.jit
    def says(x):
        i = cuda.grid(1)
        if i < 2:
            print("thread", i, x[i], i > 0)

    says[1, 32](np.array([0.5, 2], np.float32))
    assert capsys.readouterr().out == "thread 0 0.500000 False\nthread 1 2.000000 True\n"


def test_messages_have_no_terminal_colours(monkeypatch):
    from numba.core import errors

    class Bold:
        errmsg = staticmethod(lambda text: f"\x1b[1m{text}\x1b[0m")

    monkeypatch.setattr(errors, "termcolor", lambda: Bold)

    @cuda.jit
    def mistyped(x):
        x[0] = x.sise

    @cuda.jit
    def closes(x):
        x[0] = sorted((1, 2))

    assert "\x1b" not in str(refuses(mistyped, *arrays(4), match="sise"))
    assert "\x1b" not in str(refuses(closes, *arrays(4), match="call of sorted", kind=Unsupported))


def test_a_dynamic_array_without_bytes_is_told_where_they_come_from():
    @cuda.jit
    def fills(x):
        buffer = cuda.shared.array(0, float32)
        buffer[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        x[cuda.threadIdx.x] = buffer[0]

    with pytest.raises(KernelError) as caught:
        fills[1, 32](*arrays(32))
    message = caught.value.finding.message
    assert "writes buffer[0], but buffer has size 0" in message
    assert "the fourth number in kernel[grid, block, stream, bytes]" in message
    assert "guard" not in message


def ends_with_raise(x):
    x[0] = 3
    raise ValueError("no")


def ends_with_assert(x):
    x[0] = 3
    assert x[1] > 5, "no"


def raises_only(x):
    raise NotImplementedError()


@pytest.mark.parametrize("function", [ends_with_raise, ends_with_assert, raises_only])
def test_a_kernel_may_end_with_raise_or_assert(function):
    x = np.zeros(2)
    cuda.jit(function)[1, 2](x)
    trace(cuda.jit(function), 1, 2, x)
    assert x[0] == (0 if function is raises_only else 3)
    with pytest.raises((ValueError, AssertionError, NotImplementedError), match="tid="):
        cuda.jit(debug=True)(function)[1, 2](x)


def test_a_masked_array_is_refused_as_in_numba():
    @cuda.jit
    def writes(x):
        x[0] = 1

    with pytest.raises(TypingError, match=r"numpy.ma.MaskedArray.*\n\nargument 'x': fill what is"):
        writes[1, 1](np.ma.masked_array(np.ones(3), [0, 1, 0]))
