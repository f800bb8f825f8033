"""What a verdict tells a student to do is done to the letter: the answer must get further.

Further is passed, or another failure than before, or one of a later case: an instruction that only
moves the failure to where it was, or makes a new one on the line it names, is bad advice.
"""

import ast
import re

import pytest

from course.checks import check
from course.checks.exercises import exercises
from course_lessons.edits import edited, solution
from tests.course_lessons.wrong_answers.solutions import define

HERE = {"__name__": __name__}


# ------------------------------------------------------------------- how an instruction is followed
def statement_at(text, line):
    """The statements of the suite in which a line of the function stands, and its place there."""
    whole = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    line += whole.lineno - 1
    for node in ast.walk(whole):
        for name in ("body", "orelse"):
            suite = getattr(node, name, None)
            for place, one in enumerate(suite if isinstance(suite, list) else []):
                head = one.lineno if hasattr(one, "body") else one.end_lineno
                if one.lineno <= line <= head:
                    return suite, place
    raise LookupError(f"line {line} of\n{text}")


def guarded(text, line, said):
    """An `if` around the statement and those that follow it, as far as the next barrier."""
    suite, place = statement_at(text, line)
    condition = re.search(r"`(?:if )?([^`]* < [^`:]*):?`", said)[1]
    last = place
    while last + 1 < len(suite) and "syncthreads" not in ast.unparse(suite[last + 1]):
        last += 1
    lines = text.split("\n")
    first, end, margin = suite[place].lineno - 1, suite[last].end_lineno, suite[place].col_offset
    inner = ["    " + one for one in lines[first:end]]
    lines[first:end] = [f"{' ' * margin}if {condition}:", *inner]
    return "\n".join(lines)


def on_the_line(text, line, old, new):
    lines = text.split("\n")
    start = next(n for n, one in enumerate(lines) if one.startswith("def "))
    number = start + line - 1
    assert old in lines[number], (old, lines[number])
    lines[number] = lines[number].replace(old, new, 1)
    return "\n".join(lines)


def one_less(text, line, said):
    index = re.search(r"`([^`]+)` is one too large", said)[1]
    return on_the_line(text, line, index, f"{index} - 1")


def with_its_thread(text, line, said):
    name, new = re.search(r"`(\w+)` counts .* index it with (cuda\.threadIdx\.\w)", said).groups()
    return on_the_line(text, line, f"[{name}", f"[{new}")


def padded(text, line, said):
    name, number = re.search(r"banks of (\w+) \(pad its rows by (\w+) elements?\)", said).groups()
    more = {"one": 1}.get(number) or int(number)
    pattern = rf"({name} = cuda\.shared\.array\(\([^()]*, )(\w+)\)"
    assert re.search(pattern, text), text
    longer = f"PADDED_ROW = {re.search(pattern, text)[2]} + {more}\n"  # a shape is a constant
    return longer + re.sub(pattern, r"\g<1>PADDED_ROW)", text)


def with_a_barrier(text, line, said):
    """The barrier that the verdict names, in front of the line; outside of an `if`."""
    barrier = re.search(r"put (cuda\.sync\w+\(\)) between", said)[1]
    suite, place = statement_at(text, line)
    lines = text.split("\n")
    number = suite[place].lineno - 1
    above = lines[number - 1]
    while above.lstrip().startswith("if "):
        number -= 1
        above = lines[number - 1]
    margin = len(lines[number]) - len(lines[number].lstrip())
    lines.insert(number, f"{' ' * margin}{barrier}")
    return "\n".join(lines)


def in_float32(text, line, said):
    lines = text.split("\n")
    start = next(n for n, one in enumerate(lines) if one.startswith("def "))
    number = start + line - 1
    lines[number] = re.sub(r"(?<![\w.\[(])(\d+\.\d+(?:e-?\d+)?|\d+)(?![\w.\]])", r"float32(\1)",
                           lines[number])  # fmt: skip
    if "float32(" not in lines[number]:  # what is added to came in where it was set
        name = re.match(r"\s*(\w+) \+=", lines[number])[1]
        text = "\n".join(lines)
        return re.sub(rf"(?m)^(\s*{name} = )([\d.]+)$", r"\1float32(\2)", text)
    return "\n".join(lines)


def atomic(text, line, said):
    lines = text.split("\n")
    start = next(n for n, one in enumerate(lines) if one.startswith("def "))
    number = start + line - 1
    array, index, value = re.search(r"(\w+)\[(.+)\] \+= (.+)", lines[number]).groups()
    margin = " " * (len(lines[number]) - len(lines[number].lstrip()))
    lines[number] = f"{margin}cuda.atomic.add({array}, {index}, {value})"
    return "\n".join(lines)


def with_and(text, line, said):
    return on_the_line(text, line, " & ", " and ")


def each_by_itself(text, line, said):
    instead = re.search(r"Compare each number by itself: ([^.]+\.shape\[0\].*\.shape\[1\])\.", said)
    old = re.search(r"\(\w+, \w+\) < \w+\.shape", text)[0]
    return on_the_line(text, line, old, instead[1])


def with_its_size(text, line, said):
    array = re.search(r"(\w+)\.shape is a tuple", said)[1]
    assert f"compare with {array}.shape[0]" in said
    return on_the_line(text, line, f"{array}.shape", f"{array}.shape[0]")


def shared(text, line, said):
    return text.replace("cuda.local.array", "cuda.shared.array", 1)


def stored(text, line, said):
    return on_the_line(text, line, "return ", "out[i] = ")


def taken_by_index(text, line, said):
    hint = said.partition("Hint: ")[2].partition(" stand")[0]
    for name in re.findall(r"`(\w+)`", hint):
        text = on_the_line(text, line, f" {name}", f" {name}[i]")
    return text


def returned(text, line, said):
    lines = text.rstrip().split("\n")
    margin = len(lines[-1]) - len(lines[-1].lstrip())
    lines[-1] = f"{' ' * margin}return {lines[-1].strip()}"
    return "\n".join(lines) + "\n"


#: The words of an instruction, and what follows it.
INSTRUCTIONS = (
    ("guard it with `if", guarded),
    ("let only `", guarded),
    ("is one too large: the last index", one_less),
    ("index it with cuda.threadIdx", with_its_thread),
    ("pad its rows by", padded),
    ("between the two", with_a_barrier),
    ("float64 operations: ", in_float32),
    ("use cuda.atomic.add, or give", atomic),
    ("write `and` instead of &", with_and),
    ("Compare each number by itself", each_by_itself),
    ("is a tuple of sizes", with_its_size),
    ("goes through cuda.shared.array", shared),
    ("Store the value where", stored),
    ("for a whole array here", taken_by_index),
    ("It has no `return`", returned),
)

# ------------------------------------------------------------------- kernels, each with its faults
GUARD_1D = {"i < out.size": "True"}
GUARD_2D = {"row < out.shape[0] and column < out.shape[1]": "True"}
FAULTY = [
    ("square-map", GUARD_1D),
    ("square-map", {"i < out.size": "i <= out.size"}),
    ("square-map", {"i < out.size": "i < out.shape"}),
    ("square-map", {"out[i] = ": "return "}),
    ("square-map", {"x[i] * x[i]": "x * x[i]"}),
    ("scale-add", GUARD_1D),
    ("scale-add", {"i < out.size": "i <= out.size"}),
    ("scale-add", {"i < out.size": "i < out.shape"}),
    ("scale-add", {"x[i] + y[i]": "x + y[i]"}),
    ("scale-add", {"out[i] = ": "return "}),
    ("add-images", {"column < out.shape[1]": "True"}),
    ("add-images", {"row < out.shape[0]": "True"}),
    ("add-images", GUARD_2D),
    ("add-images", {" and ": " & "}),
    ("add-images", {"row < out.shape[0] and column < out.shape[1]": "(row, column) < out.shape"}),
    ("rotate-image", {"- 1 -": "-"}),
    ("rotate-image", {" and ": " & "}),
    ("rotate-image", {"row < out.shape[0] and column < out.shape[1]": "(row, column) < out.shape"}),
    ("strided-scale-add", {"size,": "size + 1,"}),
    ("total-by-strides", {"x.size": "x.size + 1"}),
    ("histogram", {"cuda.atomic.add(counts, values[i], 1)": "counts[values[i]] += 1"}),
    ("histogram", {"i < values.size": "True"}),
    ("one-layer", {"i < out.shape[0]": "True"}),
    ("one-layer", {"j < out.shape[1]": "True"}),
    ("reverse-blocks", {"count - 1 - t": "count - t"}),
    ("reverse-blocks", {"buffer[t]": "buffer[i]"}),
    ("reverse-blocks", {"cuda.syncthreads()": "pass"}),
    ("reverse-blocks", {"shared.": "local."}),
    ("blur-halo", {"    cuda.syncthreads()\n": ""}),
    ("reconstruct-tiled", {"        cuda.syncthreads()\n        for": "        for"}),
    ("reconstruct-tiled", {"u_tile[y, i]": "u_tile[row, i]"}),
    ("tiled-transpose", {"    cuda.syncthreads()\n": ""}),
    ("padded-transpose", {"PADDED": "SIDE"}),
    ("reconstruct", {"row < out.shape[0]": "True"}),
    ("wide-tile", {"PITCH": "BLOCK"}),
    ("reconstruct-columns", {"float32(0)": "0"}),
    ("reconstruct-float32", {"float32(0)": "0.0"}),
    ("total-by-strides", {"float32(0)": "0.0"}),
    ("one-kernel", {"= share\n    cuda.syncthreads()": "= share"}),
    ("one-kernel", {"gelu(q)\n    cuda.syncwarp()": "gelu(q)"}),
    ("one-kernel", {"share = float32(0)": "share = 0.0"}),
]  # fmt: skip


def number_of(exercise, verdict):
    """Which case a verdict is about; one more than there are where it passed."""
    found = re.search(r"(?m)^Case: (.*?)(?:, grid .*)?\.$", verdict.message)
    names = [case.name for case in exercises()[exercise].cases]
    return names.index(found[1]) if found and found[1] in names else len(names)


def fault_of(before, after, exercise):
    """Why the answer did not get further; None where it did."""
    if after.status == "passed":
        return None
    if after.kind in ("typing", "raised"):
        return f"the instruction breaks the kernel:\n{after}"
    if after.message.split("\n")[:2] == before.message.split("\n")[:2]:
        return f"nothing has changed:\n{after}"
    if after.kind == before.kind and number_of(exercise, after) < number_of(exercise, before):
        return f"it fails earlier:\n{after}"
    return None


def followed(exercise, text, times=4):
    """Each verdict's instruction is done, until there is none; (verdicts, which were done)."""
    verdicts, done = [], []
    for _ in range(times):
        answer = define(text, exercise, f"{exercise} as told", HERE)
        verdicts.append(check(exercise, answer))
        said = " ".join(str(verdicts[-1]).split())
        function = next((f for words, f in INSTRUCTIONS if words in said), None)
        if verdicts[-1].status == "passed" or function is None:
            break
        line = re.search(r"Line (\d+)", said)
        text = function(text, int(line[1]) if line else 0, said)
        done.append(function.__name__)
    return verdicts, done


@pytest.mark.parametrize(
    ("exercise", "edit"), FAULTY, ids=[f"{n}-{name}" for n, (name, _) in enumerate(FAULTY)]
)
def test_an_instruction_that_is_followed_leads_further(exercise, edit):
    text = edited(solution(exercise).source, edit.items(), exercise)
    verdicts, done = followed(exercise, text)
    assert verdicts[0].status == "failed" and done, verdicts[0]
    for before, after in zip(verdicts, verdicts[1:], strict=False):
        assert fault_of(before, after, exercise) is None, f"after\n{before}\ncame\n{after}"
    assert verdicts[-1].status == "passed" or len(done) < 4, verdicts[-1]


def test_a_function_that_is_told_to_return_does():
    text = "def launch(n):\n    (n + 127) // 128, 128\n"
    text = text.replace("launch", solution("launch-1d").function)
    verdicts, done = followed("launch-1d", text)
    assert done == ["returned"] and verdicts[-1].status == "passed"


def test_an_instruction_that_leads_nowhere_is_noticed():
    text = edited(solution("square-map").source, GUARD_1D.items(), "square-map")
    verdict = check("square-map", define(text, "square-map", "unguarded", HERE))
    assert "nothing has changed" in fault_of(verdict, verdict, "square-map")
    broken = text.replace("x[i]", "z[i]")
    after = check("square-map", define(broken, "square-map", "broken", HERE))
    assert "breaks the kernel" in fault_of(verdict, after, "square-map")
