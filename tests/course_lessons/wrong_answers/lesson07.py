"""Wrong answers to the exercises of lesson 07 as students write them, and unusual right ones."""

from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("busy-time")
wrong("wrong-result", "only what lies behind it is new")(
    "overlap = 0.0\nfor n, (start, end) in enumerate(spans):\n"
    "    for other, until in spans[:n]:\n"
    "        overlap += max(0.0, min(end, until) - max(start, other))\n"
    "return sum(end - start for start, end in spans) - overlap"
)
wrong("raised", "may be empty")(
    {"total,": "spans = sorted(spans)\n    total,", 'float("-inf")': "spans[0][0]"}
)


def busy_by_merging(spans):
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return sum(end - start for start, end in merged)


right("spans = list(spans)\nspans.sort()\nreturn busy_by_merging(spans)")
wrong("wrong-result", "right is 7.499", base=busy_by_merging)({"[1]:": "[1] + 0.1:"})
wrong("wrong-result", "right is")({"sorted(spans)": "sorted(spans)[:8]"})
wrong("input-modified", "belongs to the caller")("spans.sort()\nreturn busy_by_merging(spans)")
wrong("wrong-result", "result is 7, right is 7.499")(
    "return len({t for start, end in spans for t in range(int(start), int(end))})"
)
right(
    {
        'total, until = 0.0, float("-inf")': "until = []",
        "total += max(0.0, end - max(start, until))\n        until = max(until, end)": (
            "if until and start <= until[-1][1]:\n"
            "            until[-1][1] = max(until[-1][1], end)\n        else:\n"
            "            until.append([start, end])"
        ),
        "return total": "return sum(end - start for start, end in until)",
    }
)


wrong, right = answers_to("together")
wrong("raised", "may be empty")({"total = 0.0": "total = 0.0 * first[0][0] * second[0][0]"})
wrong("wrong-shape", "One number")(
    "return [max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second]"
)
wrong("wrong-result", "each span of the other")({"in first": "in first[:8]"})
right(
    "b = [busy_by_merging(a) for a in (first, second, first + second)]\nreturn b[0] + b[1] - b[2]"
)


wrong, right = answers_to("lines-of-a-load")
wrong("wrong-shape", "not the lines")({"len(np": "np", "// 32))": "// 32)"})
right({"len(np.unique(elements // 32))": ("1 + np.count_nonzero(np.diff(np.sort(elements >> 5)))")})


wrong, right = answers_to("speed-of-light")
wrong("wrong-result", "the larger of the two")({"sm >= memory": "sm > memory + 0.1"})
wrong("wrong-result", "larger of the two has the word")(
    'if memory >= 60:\n    return "memory"\nreturn "compute" if sm >= 60 else "waiting"'
)
wrong("wrong-result", "in lower case")({'"memory"': '"Memory"'})
wrong("wrong-result", "only if both are below")({"sm < 60 and memory": "(sm + memory) / 2"})
wrong("wrong-result", "neither roof is near")({"60 and": "0.6 and"})


right(
    'share, word = max((sm, "compute"), (memory, "memory"))\n'
    'return word if share >= 60 else "waiting"'
)


wrong, right = answers_to("main-stall")
wrong("wrong-result", "waits most for 'wait'")({"clocks.get": "lambda name: int(clocks[name])"})
wrong("wrong-result", "or it could")(
    'waiting = {worst: state for worst, state in clocks.items() if worst != "selected"}\n'
    "worst = max(waiting, key=waiting.get)\n"
    "return worst, waiting[worst] / sum(clocks.values())"
)


def by_sorting(clocks):
    ordered = sorted(((v, k) for k, v in clocks.items() if not k.endswith("selected")))
    return ordered[-1][1], ordered[-1][0] / sum(clocks.values())


wrong("wrong-result", "Line 3 decides")(
    "worst, share = by_sorting(clocks)\nreturn worst, 100 * share"
)
wrong("wrong-result", "Return two things")("return by_sorting(clocks)[0]")
wrong("input-modified", "belongs to the caller")(
    'clocks.pop("selected", None)\nclocks.pop("not_selected", None)\n'
    "worst = max(clocks, key=clocks.get)\n"
    "return worst, clocks[worst] / sum(clocks.values())"
)
wrong("raised", "changed size during iteration")(
    'for worst in clocks:\n    if worst in ("selected", "not_selected"):\n'
    "        del clocks[worst]\nreturn by_sorting(clocks)"
)
wrong("wrong-result", "other way round")("return by_sorting(clocks)[::-1]")
wrong("wrong-result", "It waits most for")(
    {"waiting, key=clocks.get": 'worst for worst in clocks if not worst.endswith("selected")'}
)
wrong("wrong-result", "must be a number, the share")(
    'worst, share = by_sorting(clocks)\nreturn worst, f"{share:.0%}"'
)
wrong("raised", "clocks.get(state, 0)")(
    'waiting = sum(clocks.values()) - clocks["selected"] - clocks["not_selected"]\n'
    "name, share = by_sorting(clocks)\nreturn name, share if waiting else 0.0"
)
right("waiting, worst = by_sorting(clocks)\nreturn [waiting, np.round(worst, 4)]")
right(
    "waiting = sorted(((state, k) for k, state in clocks.items() if not "
    'k.endswith("selected")))\n'
    "return waiting[-1][1], waiting[-1][0] / sum(clocks.values())"
)


wrong, right = answers_to("unseen-kernels")
wrong("wrong-result", "D is not 'too few blocks': there are 1,024 blocks", "Divide sectors")(
    {'"D": "nothing"': '"D": "too few blocks"'}
)
wrong("wrong-result", "A is not 'uncoalesced'", "4 sectors in loads and 4 in stores")(
    {'"A": "bank conflicts"': '"A": "uncoalesced"', '"C": "uncoalesced"': '"C": "bank conflicts"'}
)
wrong("wrong-result", "E is not in order: there are 8 blocks for the 132 multiprocessors")(
    {'"E": "too few blocks"': '"E": "nothing"'}
)
wrong("wrong-result", "'slow' of B is none of the words", '"uncoalesced", "bank conflicts"')(
    {'"float64"': '"slow"'}
)
wrong("wrong-result", "Nothing is said of E")({'"E": "too few blocks",': ""})
wrong("wrong-result", "Return a dictionary")('return ["bank conflicts", "float64"]')
right(
    'return dict(a="Bank conflicts!", b="float64 arithmetic", c="uncoalesced stores", '
    'd="nothing", e="too few blocks: 8 for 132 multiprocessors")'
)
