"""How a kernel is judged: simulated case by case, then compared, then its costs, then the GPU."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from course import backend
from course.checks import answers, simulating, trials
from course.checks.answers import is_gpu_kernel
from course.checks.comparing import compare, extent, first, place, shown, told_apart, wrong_elements
from course.checks.exercises import KernelExercise, Limit, call_with_named
from course.checks.simulating import prepared, references, simulated, values_of
from course.checks.spread import Fault, Work, spread_fault, stores_once
from course.checks.verdicts import Failure, NotStarted
from warpsim.core.words import count
from warpsim.host import gpus
from warpsim.watch.advice import BARRIERS

SHAPE_COSTS = ("uncoalesced", "bank-conflict", "divergence")


def judge_kernel(exercise: KernelExercise, answer: Any) -> str:
    """What to say of a kernel that is right in every case; raises Failure or NotStarted."""
    fault = answers.kernel_fault(exercise.name, answer)
    if fault:
        raise Failure("not-a-kernel", fault)
    function = answers.plain_function(answer)
    answers.refuse_borrowed(answer, exercise)
    answers.check_parameters(function, exercise.parameters)
    if (given := exercise.given()) and answers.is_as_given(function, given):
        raise NotStarted
    reports, faults = [], []
    for number in range(len(exercise.cases)):
        with trials.named_case(exercise, number):
            simulating.check_signature(answer, exercise.arguments(number))
    for number in range(len(exercise.cases)):
        with trials.named_case(exercise, number):
            try:
                reports.append(simulate_case(exercise, number, answer))
            except Failure as failure:
                _for_all_warps(exercise, number, answer, failure)
                raise
            _judge_counts(exercise, number, reports[-1], few=True)
            faults.append(_spread_fault(exercise, number, reports[-1]))
            # The first case is enough to tell: a serial program takes its time in larger ones.
            repeated = any(its.kind == "same-value-race" for its in reports[-1].findings)
            if faults[-1] and (faults[-1].of_few or repeated):
                raise _not_parallel(faults[-1], reports[-1])
    _judge_costs(exercise, reports)
    _judge_barriers(exercise, reports)
    if exercise.helped and not answers.calls_device_function(function):
        raise Failure("limit", f"The result is right. {exercise.helped}")
    for number, fault in enumerate(faults):
        with trials.named_case(exercise, number):
            if fault:
                raise _not_parallel(fault, reports[number])
    with trials.with_other_values(exercise) as anew:
        if anew is not None:
            of, number = anew
            expected = references(of, of.arguments(number))
            _compare_results(of, number, values_of(of, number, answer), expected, None)
    text = trials.all_cases(exercise)
    if backend.gpu() is not None and is_gpu_kernel(answer) and _runs_here(exercise):
        for number in range(len(exercise.cases)):
            with trials.named_case(exercise, number):
                _launch_on_gpu(exercise, number, answer)
        # The name of the GPU stays out: a verdict reads the same on every machine.
    return text


def _for_all_warps(exercise: KernelExercise, number: int, answer: Any, failure: Failure) -> None:
    """Advise the barrier of the block where that of the warp is not enough in a later case."""
    if failure.kind != "race" or BARRIERS["warp"] not in failure.message:
        return
    for other in range(number + 1, len(exercise.cases)):
        with contextlib.suppress(Failure):
            report = simulated(exercise, other, answer, _arguments(exercise, other))
            if any(BARRIERS["block"] in finding.message for finding in report.findings):
                failure.message = failure.message.replace(BARRIERS["warp"], BARRIERS["block"])
                return


def _arguments(exercise: KernelExercise, number: int) -> dict[str, Any]:
    return prepared(exercise, number, references(exercise, exercise.arguments(number)))


def simulate_case(
    exercise: KernelExercise, number: int, answer: Any, *, causes: bool = True
) -> Any:
    """Simulate one case and raise its first fault; without `causes` no other case is simulated."""
    expected = references(exercise, exercise.arguments(number))
    arguments = prepared(exercise, number, expected)
    before = {name: trials.copied(value) for name, value in arguments.items()}
    report = simulated(exercise, number, answer, arguments)
    for kind in simulating.ERRORS:
        if kind == "race":
            # A race in an input is an effect; that the kernel writes there is the cause.
            trials.inputs_unchanged(exercise, before, arguments)
        for finding in report.findings:
            if finding.kind == kind:
                raise trials.from_finding(finding, tuple(report.findings))
    function = answers.plain_function(answer)
    stores = any(report.total("global", operation).requests for operation in ("store", "atomic"))
    if not stores and answers.looks_like_a_stub(function, given_lines=True):
        raise NotStarted
    _look_at_outputs(exercise, number, answer, before, arguments, expected)
    _compare_results(exercise, number, arguments, expected, answer if causes else None)
    return report


def _look_at_outputs(
    exercise: KernelExercise,
    number: int,
    answer: Any,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    expected: dict[str, np.ndarray],
) -> None:
    """Raise what is wrong with outputs that were never written, or read before they were.

    A poisoned element that stays may have been computed from poison, and a wrong one, too. A second
    run with other poison decides: what keeps both poisons was not written; what differs between
    the runs was computed from what was there before.
    """
    untouched = {name: _same_values(before[name], after[name]) for name in exercise.outputs}
    wrong = _wrong(exercise, number, after, expected)
    if not any(untouched[name].any() or wrong[name].any() for name in exercise.outputs):
        return
    again = prepared(exercise, number, expected, finite=True)
    start = {name: trials.copied(value) for name, value in again.items()}
    simulated(exercise, number, answer, again, simulating.untraced)  # the first run saw errors
    unwritten = {
        name: mask & _same_values(start[name], again[name]) for name, mask in untouched.items()
    }
    for name in exercise.outputs:
        depends = wrong[name] & ~unwritten[name] & ~_same_values(after[name], again[name])
        if depends.any():
            hint = exercise.hints.get("uninitialised-read", "")
            raise Failure(
                "uninitialised-read",
                f"{place(name, first(depends))} is computed from what {name} held before the "
                f"launch, and nobody put a value there: {extent(depends)}. "
                f"Store the result with `=`, or set {name} first.",
                hint=hint if re.search(rf"\b{name}\b", hint) else "",  # of other memory
            )
    for name, mask in unwritten.items():
        if mask.any():
            raise Failure("unwritten-output", _unwritten_message(name, mask))


def _wrong(
    exercise: KernelExercise,
    number: int,
    results: Mapping[str, Any],
    expected: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Mask of the wrong elements of each result."""
    arguments = exercise.arguments(number)
    return {
        name: wrong_elements(
            results[name], right, exercise.tolerance.allowed(arguments, right, results[name].dtype)
        )
        for name, right in expected.items()
    }


def _same_values(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    return np.asarray((old == new) | ((old != old) & (new != new)))


def _unwritten_message(name: str, mask: np.ndarray) -> str:
    if mask.all():
        return f"Nothing was written to {name}: {extent(mask)} still as before the launch."
    index = place(name, first(mask))
    return f"Your kernel leaves elements of {name} unwritten: {extent(mask)}, from {index} on."


def _wrong_elsewhere(
    exercise: KernelExercise, number: int, stored: Callable | None, name: str
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """What an answer stores, what is right, and where it is wrong, in the other cases that fail."""
    for other in range(len(exercise.cases)):
        if other == number or stored is None:
            continue
        with contextlib.suppress(Failure):  # another fault
            results = {name: stored(other)[name]}
            right = references(exercise, exercise.arguments(other))[name]
            wrong = _wrong(exercise, other, results, {name: right})[name]
            if wrong.any():
                yield results[name], right, wrong


def _compare_results(
    exercise: KernelExercise,
    number: int,
    results: Mapping[str, Any],
    expected: dict[str, np.ndarray],
    answer: Any,
) -> None:
    arguments = exercise.arguments(number)
    # what the answer stores in the other cases: simulated where that is asked, and once
    stored = cache(lambda other: values_of(exercise, other, answer)) if answer is not None else None
    block = exercise.cases[number].block
    threads = int(np.prod(block))
    for name, right in expected.items():
        compare(
            name,
            results[name],
            right,
            exercise.tolerance.allowed(arguments, right, results[name].dtype),
            inputs={n: v for n, v in arguments.items() if n not in exercise.outputs},
            threads=threads,
            before=arguments[name] if name in exercise.updated else None,
            tolerance_reason=exercise.tolerance.reason,
            others=partial(_wrong_elsewhere, exercise, number, stored, name),
            cancels={
                sentence: np.broadcast_to(call_with_named(where, arguments), right.shape)
                for sentence, where in exercise.cancels.items()
            },
        )


def _size(exercise: KernelExercise, number: int) -> int:
    return exercise.arguments(number)[(exercise.outputs + exercise.updated)[0]].size


@cache
def _work_of_model(exercise: KernelExercise, model: Any, number: int) -> Work:
    return Work.of(simulated(exercise, number, model, _arguments(exercise, number)))


def _spread_fault(exercise: KernelExercise, number: int, report: Any) -> Fault | None:
    """A few threads do what was meant for all, or each thread does everything; or None."""
    model = exercise.model()
    if model is None:
        return None
    if exercise.own_element and stores_once(report, _size(exercise, number)):
        return None
    return spread_fault(Work.of(report), _work_of_model(exercise, model, number))


def _not_parallel(fault: Fault, report: Any) -> Failure:
    return Failure("not-parallel", fault.sentence, findings=tuple(report.findings))


def _judge_barriers(exercise: KernelExercise, reports: list[Any]) -> None:
    model = exercise.model()
    if not exercise.barriers or model is None:
        return
    for number, report in enumerate(reports):
        enough = _work_of_model(exercise, model, number).barriers
        if report.barriers <= enough + 1:
            continue
        message = (
            "The result is right; the cost is not. A block waits at "
            f"{count(report.barriers, 'barrier')}; {enough:,} are enough. {exercise.barriers}"
        )
        with trials.named_case(exercise, number):
            raise Failure("limit", message, findings=tuple(report.findings))


def _judge_costs(exercise: KernelExercise, reports: list[Any]) -> None:
    measured = [n for n, case in enumerate(exercise.cases) if case.measured]
    if not measured:
        listed = [n for n, case in enumerate(exercise.cases) if case.seed is None]
        sizes = [_size(exercise, n) for n in listed]
        measured = [int(np.argmax(sizes))]
    for number, report in enumerate(reports):
        with trials.named_case(exercise, number):
            for finding in report.findings:
                elsewhere = finding.kind in SHAPE_COSTS and number not in measured
                if finding.kind not in exercise.refused or elsewhere:
                    continue
                failure = trials.from_finding(finding, tuple(report.findings))
                but = "" if finding.kind == "same-value-race" else "; the cost is not"
                failure.message = f"The result is right{but}. {failure.message}"
                raise failure
            _judge_counts(exercise, number, report, few=False)
            if number in measured:
                for limit in exercise.limits:
                    _judge_limit(exercise, number, limit, report)


def _judge_counts(exercise: KernelExercise, number: int, report: Any, *, few: bool) -> None:
    """Raise Failure("limit") where what is taught is done too seldom, or else too often."""
    named = {"mma": ("product", " on tensor cores"), "barriers": ("barrier", "")}
    arguments = exercise.arguments(number)
    launch = trials.launch_configuration(exercise, exercise.cases[number], arguments)
    given = {"threads": int(np.prod(launch[0]) * np.prod(launch[1])), **arguments}
    for counted in exercise.counted:
        times = np.atleast_1d(call_with_named(counted.times, given))
        found, bound = counted.count(report), times[0] if few else times[-1]
        if found < bound if few else found > bound:
            noun, more = named.get(counted.what, ("call", f" of {counted.what}"))
            makes = f"{count(found, noun)}{more}" if found else f"no {noun}{more}"
            is_it = (
                f"{shown(bound)} {'is' if bound == 1 else 'are'} {'needed' if few else 'enough'}"
            )
            why = f" {counted.why}" if counted.why else ""
            said = f"The result is right, but your kernel makes {makes}; {is_it}.{why}"
            raise Failure("limit", said, findings=tuple(report.findings))


def _judge_limit(exercise: KernelExercise, number: int, limit: Limit, report: Any) -> None:
    total = report.total(limit.space, limit.operation)
    first_result = (exercise.outputs + exercise.updated)[0]
    base = {"request": total.requests, "element": _size(exercise, number)}.get(limit.per, 1)
    figure = getattr(total, limit.figure) / base if base else 0.0
    if limit.per == "thread":
        figure = int(report.by_thread((limit.space, limit.operation)).max())
    if figure <= limit.at_most * (1 + 1e-9):
        return
    why = f" {limit.why}" if limit.why else ""
    found, enough = shown(round(figure, 2)), shown(limit.at_most)
    if found == enough:
        found, enough = told_apart(figure, limit.at_most)
    accesses = f"{limit.space} {limit.operation}s"
    if limit.figure == "lanes":  # what the threads do, not what the memory does
        share = {
            "request": "in each request",
            "element": f"for each element of {first_result}",
            "launch": "in all",
            "thread": "in one of them",
        }[limit.per]
        does = f"Your threads make {found} {accesses} {share}"
    else:
        does = f"Your {accesses} need {found} {limit.figure} per {limit.per}"
    is_enough = "is" if limit.at_most == 1 else "are"
    raise Failure(
        "limit",
        f"The result is right; the cost is not. {does}; {enough} {is_enough} enough.{why}",
        findings=tuple(report.findings),
    )


def _runs_here(exercise: KernelExercise) -> bool:
    """Whether this machine's GPU has the instructions of the one that the exercise simulates."""
    device = backend.cuda.get_current_device()
    return tuple(device.compute_capability) >= gpus.find(exercise.gpu).compute_capability


def _launch_on_gpu(exercise: KernelExercise, number: int, answer: Any) -> None:
    """Launch a case that came out clean on the real GPU and compare again.

    Only kernels of numba.cuda: one of the simulator names the simulator's functions.
    """
    numba_cuda = importlib.import_module("numba.cuda")
    expected = references(exercise, exercise.arguments(number))
    arguments = prepared(exercise, number, expected)
    case = exercise.cases[number]
    grid, block = trials.launch_configuration(exercise, case, arguments)
    try:
        on_device = [
            numba_cuda.to_device(value) if isinstance(value, np.ndarray) else value
            for value in arguments.values()
        ]
        answer[grid, block, 0, case.shared](*on_device)
        numba_cuda.synchronize()
        for name, value in zip(arguments, on_device, strict=True):
            if isinstance(arguments[name], np.ndarray):
                arguments[name] = value.copy_to_host()
        _compare_results(exercise, number, arguments, expected, None)
    except Failure as failure:
        message = f"Right when simulated, but not on this machine's GPU. {failure.message}"
        raise Failure("gpu-result", message) from failure
    except Exception as error:
        message = "Right when simulated, but the launch on this machine's GPU fails. "
        raise Failure("gpu-result", message + backend.one_line(error, 400)) from error
