"""Wrong answers to the exercises of lesson 08 as students write them, and unusual right ones."""

import contextlib
import io

import numpy as np

from tests.course_lessons.wrong_answers import answers_to

STEPS = ("copy in", "kernel", "copy out")
SESSION = {}


wrong, right = answers_to("fill-the-queues")
wrong("wrong-result", "overwrites image 0, which stream 0 has not copied out")(
    "return [(step, image, image % streams) for step in STEPS for image in range(images)]"
)
wrong("wrong-result", "nothing makes it wait")(
    "return [(step, image, place % streams) for image in range(images) for place, "
    "step in enumerate(STEPS)]"
)
wrong("wrong-result", "The copy out of image 0 is missing")(
    "return [(step, image, image % streams) for image in range(images) for step in STEPS[:2]]"
)
wrong("wrong-result", "is queued before its copy in")(
    {'"copy in", "kernel"': '"kernel", "copy in"'}
)
wrong("wrong-result", "there is no stream 3; they are 0 to 2")(
    "return [(step, image, image) for image in range(images) for step in STEPS]"
)
wrong("wrong-result", "no whole number")(
    "return [(step, image, image / streams) for image in range(images) for step in STEPS]"
)
wrong("wrong-result", "the step must be one of")({'"copy in"': '"in"'})
wrong("wrong-result", "it must have three parts")(
    "return [(step, image) for image in range(images) for step in STEPS]"
)
wrong("wrong-result", "is queued 2 times")({"return queue": "return queue + queue"})
wrong("wrong-result", "there is no image 6")(
    "return [(step, image, image % streams) for image in range(1, images + 1) for step in STEPS]"
)
wrong("wrong-result", "Give the streams an image each in turns|The busiest")(
    "return [(step, image, max(image - images + streams, 0)) for image in "
    "range(images) for step in STEPS]"
)
wrong("wrong-result", "leave `yield` out")(
    {"queue.append((step": "yield step", "))\n    return queue": ""}
)
wrong("wrong-result", "The copy in of image 1 is missing")(
    {'for step in ("copy in", "kernel", "copy out"):\n            queue.append(': ("queue += [")},
    {"streams))": "streams) for step in STEPS]\n        return queue"},
)
wrong("wrong-result", "You use 2 of 3 streams")(
    "return [(step, image, image // streams) for image in range(images) for step in STEPS]"
)
right(
    {"image in range(images": "first in range(0, images, streams"},
    {'("copy in", "kernel", "copy out")': "STEPS", ".append((": " += [["},
    {"% streams))": "- first] for image in range(first, min(first + streams, images))]"},
    {"return queue": "return tuple(queue)"},
)


wrong, right = answers_to("enough-streams")


def enough_by_trying(copy_in, kernel, copy_out):
    streams = 1
    while streams * max(copy_in, kernel, copy_out) < copy_in + kernel + copy_out:
        streams += 1
    return streams


wrong("wrong-shape", "one whole number")("return [enough_by_trying(copy_in, kernel, copy_out)]")
right(
    "streams = 1\n"
    "while streams * max(copy_in, kernel, copy_out) < copy_in + kernel + copy_out:\n"
    "    streams += 1\nreturn streams"
)


wrong, right = answers_to("pack-factors")
wrong("wrong-result", "You never called take()")(
    "return np.concatenate([u[:, :k].ravel(), s[:k], vt[:k].ravel()]).astype(np.float32)"
)
wrong("wrong-result", "The buffer has the shape (78,), right is (26,)")(
    {"sum(part.size for part in parts)": "u.size + s.size + vt.size"}
)
wrong("wrong-result", "You took 3 buffers")(
    "buffers = []\nfor part in (u[:, :k], s[:k], vt[:k]):\n    buffers.append(take(part.size))\n"
    "    buffers[-1][:] = part.ravel()\nreturn buffers[0]"
)
wrong("wrong-result", "right is (26,)", "Line 3 decides")({"(sum(": "(4 * sum("})
wrong("wrong-result", "Return the buffer, an array; got tuple")(
    {"return buffer": "return buffer, buffer.size"}
)
wrong("wrong-result", "Nothing was written to numbers 0 to 11")(
    {"parts = (u[:, :k], s[:k], vt[:k": "return take(u.shape[0] * k + k + k * vt.shape[1"}
)


def pack_part_by_part(u, s, vt, k, take):
    rows, columns = u.shape[0], vt.shape[1]
    buffer = take((rows + 1 + columns) * k)
    there = 0
    for part in (u[:, :k], s[:k], vt[:k]):
        np.copyto(buffer[there : there + part.size].reshape(part.shape), part, casting="same_kind")
        there += part.size
    return buffer


wrong("wrong-result", "new memory, and that is pageable")(
    "return pack_part_by_part(u, s, vt, k, take).copy()"
)
wrong("raised", "could not broadcast", "rows · k of them")(
    "buffer = take(u.shape[0] * k + k + k * vt.shape[1])\n"
    "buffer[: u.shape[0] * k] = u[:, :k]\nreturn buffer"
)
right(pack_part_by_part)
right(
    "parts = [u[:, :k].ravel(), s[:k], vt[:k].ravel()]\nused = sum(map(len, parts))\n"
    'buffer = take(used + 100)[:used]\nnp.concatenate(parts, out=buffer, casting="same_kind")\n'
    "return buffer"
)


wrong, right = answers_to("serial-fractions")


wrong("wrong-shape|raised", "One fraction for each|begin at the second")({"workers[1:]": "workers"})


def fractions_by_the_other_form(workers, milliseconds):
    count, time = np.array(workers[1:]), np.array(milliseconds[1:])
    return (count * time / milliseconds[0] - 1) / (count - 1)


wrong("input-modified", "belongs to the caller")(
    "speedup = milliseconds.pop(0)\nworkers.pop(0)\n"
    "return [(time / speedup - 1 / count) / (1 - 1 / count) for count, time in "
    "zip(workers, milliseconds, strict=True)]"
)
wrong("wrong-shape", "One fraction for each")(
    "return fractions_by_the_other_form(workers, milliseconds)[-1]"
)
right(
    "count, time = np.array(workers[1:]), np.array(milliseconds[1:])\n"
    "return (count * time / milliseconds[0] - 1) / (count - 1)"
)


wrong, right = answers_to("graph-pays")
wrong("wrong-result")({"capture //": "(capture + 0.01) //"})
wrong("wrong-result")({"saved <= 0": "saved <= 1e-3"})


wrong("raised", "meet a 0")(
    {"\n    if saved <= 0:\n        return 0": "", ") + 1": ") + 1 if saved >= 0 else 0"}
)
right(
    "if replay + kernels * node >= kernels * launch:\n    return 0\nruns = 1\n"
    "while capture + runs * (replay + kernels * node) >= runs * kernels * launch:\n    runs += 1\n"
    "return runs"
)


wrong, right = answers_to("stale-outputs")
wrong("wrong-result", "compare the whole text")({"!= saved": ".strip() != saved.strip()"})
wrong("wrong-result", "compare the whole text")({"!= saved": ".lower() != saved.lower()"})
wrong("raised", "images")({"names)": "{})"})
wrong("wrong-result", "Line 3 decides")({"enumerate(cells": "enumerate(cells, 1"})
wrong("wrong-result", "does not print what is saved")(
    {"output_of": "not saved.startswith(output_of", " != saved": ")"}
)


def printed(source, names):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        exec(source, names)
    return text.getvalue()


wrong("wrong-result", "Return a list of places")(
    "names = {}\nreturn sum(printed(source, names) != saved for source, saved in cells)"
)
wrong("wrong-result", "compare the whole text")(
    "names = {}\n"
    "return [n for n, (source, saved) in enumerate(cells) if saved not in printed(source, names)]"
)
wrong("wrong-result", "a new one for each notebook")({"names)": "SESSION)"})
wrong("raised", "comes before the loop")({", found": ""})


@wrong("input-modified", "belongs to the caller")
def stale_and_mended(cells):
    names, found = {}, []
    for place, (source, saved) in enumerate(cells):
        text = printed(source, names)
        if text != saved:
            cells[place] = (source, text)
            found.append(place)
    return found


wrong("wrong-result", "Places are whole numbers")(
    "names = {}\nreturn [source for source, saved in cells if printed(source, names) != saved]"
)
wrong("wrong-result", "does not print what is saved")({"return found": "return []"})
wrong("wrong-result")({"names) != saved": "names)[:60] != saved[:60]"})
wrong("wrong-result")({"!= saved": '.replace(" ", "") != saved.replace(" ", "")'})


right(
    'names = {"__name__": "__main__"}\n'
    "return np.flatnonzero([printed(source, names) != saved for source, saved in cells])"
)
