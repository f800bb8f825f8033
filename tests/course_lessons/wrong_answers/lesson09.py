"""Wrong answers to the exercises of lesson 09 as students write them, and unusual right ones."""

import os
import queue  # noqa: F401
import shutil  # noqa: F401
import tempfile
from concurrent.futures import ThreadPoolExecutor  # noqa: F401

from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("rebuild-many")
wrong("out-of-bounds", "Three guards")({" image < out.shape[0] and": ""})
wrong("float64", "float32(0)")({"float32(0)": "0.0"})
wrong("wrong-result", "drawn")({"range(k)": "range(min(k, 64))"})
wrong("uncoalesced|not-parallel", "walks along the columns|column of its own")(
    {
        "col, row": "row, col",
        "if image": "while image",
        "col <": "image < out.shape[0]:\n        c = col\n        while c <",
    },
    {"total =": "    total =", "for i": "    for i"},
    {"total +=": "    total +=", ", col]\n": ", c]\n    "},
    {
        "col] = total": (
            "c] = total\n            c += cuda.gridsize(3)[1]\n        row += cuda.gridsize(3)[0]"
        )
    },
)
wrong("limit|race", "Store each pixel once|Is the image an index")(
    {"total =": "for n in range(out.shape[0]):\n            total =", "for i": "    for i"},
    {"total +=": "    total +=", "]\n        out": "]\n            out"},
)
wrong("out-of-bounds|typing", "image")({"image, row, i] * s[image, i": "row, i] * s[i"})
right(
    {
        "col, row, image = cuda.grid(3)": (
            "image = cuda.blockIdx.z * cuda.blockDim.z + cuda.threadIdx.z\n"
            "    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y\n"
            "    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"
        ),
        "image <": "image >=",
        " and row": ":\n        return\n    if row",
        "total =": "its_u, its_s, its_vt = u[image], s[image], vt[image]\n        total =",
        "u[image, row, i] * s[image, i] * vt[image, i, col]": (
            "its_u[row, i] * (its_s[i] * its_vt[i, col])"
        ),
    }
)


wrong, right = answers_to("run-workers")
wrong("deadlock", "in join() for the end of worker", "as many as there are workers")(
    {"_ in threads": "_ in range(1)"}
)
wrong("deadlock", "in waiting.get() for something to come", "queue is empty")(
    {" _ in threads:\n        waiting.put(None)\n    for": ""}
)
wrong("wrong-result", "results missing")(
    {"append(work(item": "count(found := work(item)) or results.append((found"}
)
wrong("wrong-result", "maxsize=room")({"=room": '={"room": room, "none": 0}["none"]'})
run_workers_907 = wrong("deadlock", "the queue is full")(
    {
        "\n    threads": (
            "            return\n"
            '    number = {"workers": workers, "one": 1, "more": workers + '
            '3}["workers"]\n\n    threads'
        )
    }
)
wrong("wrong-result", "only 1 thread did the work")("return [work(item) for item in items]")
wrong("wrong-result", "the queue has room for 3 more")({"=room": "=1"})
wrong("wrong-result", "work was called 0 times")("return [item // 2 * 7 + 1 for item in items]")
wrong("raised|deadlock", "end marker|TypeError")(
    {"while (item :=": "item = 0\n        while item is not None:\n            item ="},
    {") is not None:": ""},
)
wrong("wrong-result", "were taken from items")(
    "with ThreadPoolExecutor(workers) as waiting:\n    return list(waiting.map(work, items))"
)
wrong("endless-loop", "has not ended")(
    {"(item := waiting.get()) is not None": "True", "results.": "try:\n                results."},
    {
        "item))": (
            "waiting.get(timeout=0.05)))\n            except queue.Empty:\n                pass"
        ),
        " _ in threads:\n        waiting.put(None)\n    for": "",
    },
)
wrong("wrong-result", "do you wait, with join")(
    {
        "items:": "[*items, *[None] * workers]:",
        (
            "for _ in threads:\n        waiting.put(None)\n    for thread in threads:\n"
            "        thread.join()\n    "
        ): "",
    }
)
wrong("deadlock", "No other thread is left", "0 is an item")(
    {"(item :=": "item :=", ") is not None": ""}
)
wrong("deadlock", "Your function waits in waiting.get()", "without brackets")({") for": "()) for"})
wrong("wrong-result", "yours has a yield")("yield from map(work, items)")
wrong("wrong-result", "7 threads|8 threads|threads did the work", base=run_workers_907)(
    {"\n            return": "", '"workers"]': '"more"]', "workers)": "number)"}
)
right(
    {"maxsize=room), []": "room), Queue()", "(item :=": "True:\n            item ="},
    {
        ") is not None:": (
            "\n            if item is None:\n                waiting.put(None)\n"
            "                return"
        ),
        "append": "put",
    },
    {") for": ", daemon=True) for", "]\n    for thread in threads:\n        ": "]\n    ["},
    {"start()": "start() for thread in threads]"},
    {"for _ in threads:\n        ": "", ")\n    for thread in threads:\n        ": ")\n    ["},
    {"\n    return": " for thread in threads]\n    return"},
    {"return results": "return [results.get() for _ in range(results.qsize())]"},
)
right(
    {"(item :=": "True:\n            item =", ")) is": ")\n            if item is"},
    {
        "results.": "    results.",
        "item))": (
            "item))\n            waiting.task_done()\n            if item is None:\n"
            "                break"
        ),
        "threads = [": "for _ in range(workers):\n        ",
        " for _ in range(workers)]\n    for thread in threads:\n        thread": "",
        "_ in threads": "_ in range(workers)",
        "for thread in threads:\n        thread.join": "waiting.join",
        "return results": "return tuple(results)",
    },
)


wrong, right = answers_to("errors-travel")
wrong("wrong-result", "may be empty for a while")({"while (": "while not waiting.empty() and ("})
wrong("wrong-result", "called 8 times for 4 images")({"try:": "try:\n            work(image)"})
wrong("raised", "not an image", "must not leave the loop")(
    "while (entry := waiting.get()) is not None:\n    number, image = entry\n"
    "    done.put((number, work(image), None))\nreturn 0"
)
wrong("raised", "the file is gone")({"Exception": "ValueError"})
wrong("wrong-result", "Image 2 is lost", "number and the reason")(
    {"\n            done.put((number, None, str(error)))": ""}
)
wrong("deadlock", "in waiting.get()", "Take it out and end")(
    {"(entry :=": "True:\n        entry ="},
    {") is not None:": "\n        if entry is None:\n            continue"},
)
wrong("wrong-result", "take str(error)")({"str(error)))\n            bad += 1": '"bad image"))'})
wrong("wrong-result", "the result 0, not None")({"None, str": "0, str"})
wrong("wrong-result", "None was put into done")({"        bad += 1": "done.put(None)"})
wrong("wrong-result", "Return the number of bad images")({"= entry": "= entry\n        bad += 1"})
wrong("wrong-result", "Hand on each as soon as it is ready")(
    {"bad = 0": "bad = []", "try:\n            done.put": "try:\n            bad.append"},
    {"        bad += 1": "for triple in bad:\n        done.put(triple)"},
)


@right
def errors_as_they_are(waiting, done, work):
    bad = []
    for number, image in iter(waiting.get, None):
        result = reason = None
        try:
            result = work(image)
        except BaseException as error:
            reason = error
            bad.append(number)
        finally:
            done.put((number, result, reason))
    return len(bad)


wrong, right = answers_to("write-in-order")
wrong("wrong-result", "the order in which they came")(
    "for number, result in pairs:\n    write(result)\nreturn 0"
)
wrong("wrong-result", "as soon as its turn comes")(
    "early = sorted(pairs)\nfor number, result in early:\n    write(result)\nreturn len(early)"
)
wrong("wrong-result", "a while, not an if")({"while": "if"})
wrong("wrong-result", "counted before writing")(
    {"while": "most = max(most, len(early))\n        while"}
)
wrong("wrong-result", "Give it the result")({"early.pop(turn": "(turn, early.pop(turn)"})
wrong("wrong-result", "which counts as false")({"turn in early": "early.get(turn)"})
wrong("wrong-result", "Number 0 never was")({"}, 0,": "}, 1,"})
right(
    {"early,": "import heapq\n    early,", "{}, 0": "[], 0"},
    {" number,": "", "early[number] = result": "heapq.heappush(early, result)"},
    {"turn in early": "early and early[0][0] == turn"},
    {"early.pop(turn)": "heapq.heappop(early)[1]"},
)


wrong, right = answers_to("slowest-stage")
wrong("wrong-result", "'factorise', 83.333; right is 'rebuild'")(
    "name = max(stages, key=lambda stage: stages[stage][0])\nreturn name, 1000 / stages[name][0]"
)
wrong("wrong-result", "Line 4 decides")(
    {"rates[name]": "1000 / sum(ms / workers for ms, workers in stages.values())"}
)
right(
    "rates = sorted((ms / workers, name) for name, (ms, workers) in stages.items())\n"
    "return [rates[-1][1], 1 / (rates[-1][0] / 1e3)]"
)


wrong, right = answers_to("save-whole")
wrong("wrong-result", "holds 0 of 65 bytes", "takes it for a whole image")("path.write_bytes(data)")
wrong("wrong-result", "is still there", "Rename it")({"os.replace": "shutil.copyfile"})
wrong("wrong-result", "no 0007.png at all", "remove nothing")(
    {"os.replace": "path.unlink(missing_ok=True)\n    os.replace"}
)
wrong("wrong-result", "holds 0 of 65 bytes")(
    {"with open": "file = open", " as file:\n    ": "\n", "path)": "path)\n    file.close()"}
)
wrong("wrong-result", "lies in another folder")(
    {" = path.with_name": ", name = tempfile.mkstemp", "part, path": "name, path"}
)
wrong("wrong-result", "there is no 0007.png")({"\n    os.replace(part, path)": ""})
wrong("wrong-result", "still has its older content")(
    'if not path.exists():\n    part = path.with_name(path.name + ".part")\n'
    "    part.write_bytes(data)\n    os.replace(part, path)"
)
wrong("wrong-result", "the next run's call", "FileExistsError")({'"wb")': '"xb")'})
wrong("wrong-result", "the next run's call", "97 bytes")({'"wb")': '"ab")'})
right('part = path.with_suffix(".unfinished")\npart.write_bytes(data)\npart.replace(path)')


@right
def saved_by_mkstemp(path, data):
    number, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


wrong, right = answers_to("left-to-do")
wrong("wrong-result", "Line 3 decides")({"not in done": '+ "\\n" not in journal'})
wrong("wrong-result", "do not finish in their order")('return names[journal.count("\\n") :]')
wrong("wrong-result", "drawn")(
    {"name not in": "name.strip() not in", "\n    return": " | {''}\n    return"}
)
wrong("wrong-result", "drawn")({"name not in done": "not {name.lower(), name.upper()} & done"})
wrong("wrong-result", "drawn")({"not in done": "not in done and name.split('.')[0] not in done"})
wrong("wrong-result", "keep the order")(
    'return sorted(set(names) - set(journal.split("\\n")[:-1]), reverse=True)'
)
right(
    {
        'set(journal.split("\\n")[:-1]': (
            "dict.fromkeys(names)\n    for line in journal.splitlines(keepends=True):\n"
            '        if line.endswith("\\n"):\n            done.pop(line[:-1], None'
        ),
        "[name for name in names if name not in done]": "tuple(done)",
    }
)
