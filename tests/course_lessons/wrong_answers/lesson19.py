"""Wrong answers to the exercises of lesson 19 as students write them, and unusual right ones."""

from statistics import median  # noqa: F401

from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("fair-ratio")
wrong("wrong-result", "Leave the first call out")({"old[1:]": "old[:1]"})
wrong("raised", "old[1:] is all but the first")({"np.median(old[1:])": "np.median(old)[1:]"})
wrong("wrong-result", "returns None")({"return": "result ="})
right("return median(old[1:]) * new_work / (median(new[1:]) * old_work)")


@right
def ratio_by_hand(old, new, old_work, new_work):
    def middle(times):
        ordered = sorted(times[1:])
        half = len(ordered) // 2
        return ordered[half] if len(ordered) % 2 else sum(ordered[half - 1 : half + 1]) / 2

    return middle(old) / old_work * new_work / middle(new)


wrong, right = answers_to("what-to-mend")
wrong("wrong-result", "two are worth the same")({"after < least": "after <= least"})
wrong("wrong-result")({"after < least": "after < least - 0.01"})
wrong("wrong-shape", "the whole time afterwards, and the stage's name")(
    {"least, best\n": "least\n"}
)


@wrong("wrong-result", "Try each stage alone")
def the_longest_stage(now, possible, overlapped):
    stage = max(now, key=now.get)
    after = {**now, stage: possible[stage]}
    return max(after.values()) if overlapped else sum(after.values()), stage


@wrong("input-modified", "{**now, stage: 3.0}")
def stages_mended_in_place(now, possible, overlapped):
    whole = max if overlapped else sum
    found = []
    for stage in now:
        old, now[stage] = now[stage], possible[stage]
        found.append((whole(now.values()), stage))
        now[stage] = old
    least, best = min(found)
    now[best] = possible[best]
    return least, best


@right
def by_what_is_saved(now, possible, overlapped):
    if not overlapped:
        best = max(now, key=lambda stage: now[stage] - possible[stage])
        return sum(now.values()) - now[best] + possible[best], best
    longest = max(now, key=now.get)
    least = max([possible[longest], *(now[stage] for stage in now if stage != longest)])
    return least, longest if least < now[longest] else next(iter(now))


wrong("wrong-result", base=by_what_is_saved)({" if least < now[longest] else next(iter(now))": ""})
