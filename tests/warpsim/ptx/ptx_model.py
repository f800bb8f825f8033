"""A model of a GPU's arithmetic: PTX of a kernel of scalars, run by Python's integers and floats.

It knows what conversions, shifts, divisions, comparisons and their like do by the PTX ISA (9.0), so
that what the compiler makes of an expression can be computed where there is no GPU. Each kernel
reads ``x[0]`` and ``y[0]`` and stores into ``o[0]``, ``p[0]``, ...; addresses are no numbers here.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np

WIDTH = {"rs": 16, "r": 32, "rd": 64}
_PARTS = re.compile(r"\{[^}]*\}|\[[^]]*\]|\([^)]*\)|[^\s,]+")


class Unknown(NotImplementedError):
    """An instruction that the model does not have."""


def bits_of(x: float, size: int) -> int:
    kind = {16: np.float16, 32: np.float32, 64: np.float64}[size]
    return int.from_bytes(np.array(x).astype(kind).tobytes(), "little")


def float_of(bits: int, size: int) -> float:
    return struct.unpack({16: "<e", 32: "<f", 64: "<d"}[size], bits.to_bytes(size // 8, "little"))[
        0
    ]


def rounded(x: float | Fraction, size: int) -> float:
    try:
        x = float(x)
    except OverflowError:
        x = math.inf if x > 0 else -math.inf
    return x if size == 64 else float_of(bits_of(x, size), size)


def signed(x: int, size: int) -> int:
    x &= (1 << size) - 1
    return x - (1 << size) if x >> (size - 1) else x


def whole(x: float, mode: str) -> float:
    """A float rounded to a whole one."""
    if not math.isfinite(x):
        return x
    rule = {"rzi": math.trunc, "rni": round, "rmi": math.floor, "rpi": math.ceil}[mode]
    return math.copysign(rule(x), x)


def to_integer(x: float, kind: str, size: int, source: int) -> int:
    """``cvt`` to an integer: it keeps to the type's ends; NaN as table 'cvt' of the ISA says."""
    low, high = (-(1 << (size - 1)), (1 << (size - 1)) - 1) if kind == "s" else (0, (1 << size) - 1)
    if math.isnan(x):
        return 1 << (size - 1) if source == 64 or size == 64 else 0
    return int(max(low, min(high, x)))


def fused(a: float, b: float, c: float, size: int) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return rounded(exact, size) if exact else a * b + c


def divided(a: float, b: float) -> float:
    return float(np.float64(a) / np.float64(b))


def extreme(a: float, b: float, pick: Callable) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else pick(a, b)


INTEGERS: dict[str, Callable] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul.lo": lambda a, b: a * b,
    "mul.wide": lambda a, b: a * b, "mul.hi": lambda a, b: a * b, "min": min, "max": max,
    "neg": lambda a: -a, "abs": abs,
    "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "rem": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a, "popc": lambda a: a.bit_count(), "mad.lo": lambda a, b, c: a * b + c,
}  # fmt: skip
FLOATS: dict[str, Callable] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": divided, "rcp": lambda a: divided(1.0, a), "neg": lambda a: -a, "abs": abs,
    "sqrt": lambda a: float(np.sqrt(a)), "rsqrt": lambda a: divided(1.0, float(np.sqrt(a))),
    "min": lambda a, b: extreme(a, b, min), "max": lambda a, b: extreme(a, b, max),
    "copysign": lambda a, b: math.copysign(b, a), "ex2": lambda a: float(np.exp2(a)),
    "lg2": lambda a: float(np.log2(a)),
}  # fmt: skip
_COMPARE = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "ls": lambda a, b: a <= b, "lo": lambda a, b: a < b, "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}  # fmt: skip


class Function:
    """One function of a PTX text: its statements, and where its labels are."""

    def __init__(self, text: str):
        self.statements: list[tuple[str, list[str]]] = []
        self.labels: dict[str, int] = {}
        for part in re.split(r"[;\n]", re.sub(r"call\.uni.*?;", _one_line, text, flags=re.S)):
            part = part.strip().lstrip("{").rstrip("}").strip() if "," not in part else part.strip()
            part = part[1:] if re.match(r"\{\s*[a-z]", part) else part
            label = re.match(r"(\$?\w+):$", part)
            if label:
                self.labels[label[1]] = len(self.statements)
            elif re.match(r"@|[a-z]", part):
                guard, part = part.split(None, 1) if part.startswith("@") else ("", part)
                operation, *rest = part.split(None, 1)
                operation = f"{guard} {operation}" if guard else operation
                self.statements.append((operation, _PARTS.findall(rest[0]) if rest else []))
        self._contract()

    def _contract(self) -> None:
        """``mul`` whose product is only added becomes ``fma``, as in ptxas."""
        uses = [name for _, parts in self.statements for name in parts[1:]]
        made = {
            parts[0]: (op, parts) for op, parts in self.statements if op in ("mul.f32", "mul.f64")
        }
        for number, (op, parts) in enumerate(self.statements):
            if op[:4] not in ("add.", "sub.") or op[4:] not in ("f32", "f64"):
                continue
            for place, other in ((2, 1), (1, 2)):
                product = made.get(parts[place])
                if product and product[0][4:] == op[4:] and uses.count(parts[place]) == 1:
                    sign = "-" if op[:3] == "sub" else "+"
                    signs = (
                        "-" if sign == "-" and place == 2 else "+",
                        sign if place == 1 else "+",
                    )
                    fields = [parts[0], *product[1][1:], parts[other], *signs]
                    self.statements[number] = (f"fused.{op[4:]}", fields)
                    break


def _one_line(found: re.Match) -> str:
    return re.sub(r"\s+", " ", found[0]).replace("call.uni", "call.uni\t", 1)


class Machine:
    """Runs the kernel of a PTX text."""

    def __init__(self, ptx: str):
        ptx = re.sub(r"//[^\n]*", "", ptx)
        self.functions: dict[str, Function] = {}
        for found in re.finditer(r"\.(entry|func)[^{;]*?([\w$]+)\(([^{;]*)\{(.*?)\n\}", ptx, re.S):
            self.functions["" if found[1] == "entry" else found[2]] = Function(found[4])

    def run(self, inputs: list[int], outputs: int) -> list[int | None]:
        """The bits that a kernel stores for those of its inputs; None where it stores nothing."""
        memory: dict[int, int] = dict(enumerate(inputs))
        self._call("", memory, {})
        return [memory.get(len(inputs) + number) for number in range(outputs)]

    def _call(self, name: str, memory: dict[int, int], given: dict[str, float]) -> dict:
        function, place, steps = self.functions[name], 0, 0
        registers: dict[str, float | int | bool] = {}
        passed: dict[str, float] = {}
        while place < len(function.statements):
            steps += 1
            if steps > 100_000:
                raise Unknown("a kernel without an end")
            operation, parts = function.statements[place]
            place += 1
            if operation.startswith("@"):
                guard, operation = operation[1:].split()
                if bool(registers[guard.lstrip("!")]) == guard.startswith("!"):
                    continue
            if operation.startswith("bra"):
                place = function.labels[parts[0]]
            elif operation == "ret":
                break
            elif operation.startswith("call"):
                callee = [part for part in parts if not part.startswith("(")][0]
                passed = self._call(callee, memory, {f"{callee}_{k}": v for k, v in passed.items()})
            elif operation.startswith("st.param"):
                key = re.sub(r"^param(\d+)\+0$", r"param_\1", parts[0].strip("[]"))
                passed[key.replace("func_", "")] = value(parts[1], operation, registers)
            elif operation.startswith("ld.param"):
                key = parts[1].strip("[]")
                argument = re.search(r"_param_(\d+)$", key)
                known = passed if key.startswith("retval") else given
                registers[parts[0]] = known[key] if key in known else int(argument[1]) // 7
            elif operation.startswith("ld.global"):
                size, kind = int(operation[-2:].strip("sufb")), operation.rsplit(".", 1)[1][0]
                raw = memory[value(parts[1].strip("[]"), "b64", registers)]
                set_register(registers, parts[0], kind, size, raw)
            elif operation.startswith("st.global"):
                address = value(parts[0].strip("[]"), "b64", registers)
                size = int(operation[-2:].strip("sufb"))
                stored = value(parts[1], operation, registers)
                stored = bits_of(stored, size) if operation.rsplit(".", 1)[1][0] == "f" else stored
                memory[address] = stored & ((1 << size) - 1)
            else:
                step(operation, parts, registers)
        return passed


def set_register(registers: dict, name: str, kind: str, size: int, raw: int) -> None:
    """Write the bits of a number to a register, which may be wider."""
    if name.startswith("%f"):
        registers[name] = float_of(raw & ((1 << size) - 1), size)
        return
    number = signed(raw, size) if kind == "s" else raw & ((1 << size) - 1)
    registers[name] = number & ((1 << WIDTH[re.match(r"%([a-z]+)", name)[1]]) - 1)


def value(text: str, operation: str, registers: dict) -> float | int | bool:
    """An operand: a register's value, or a constant."""
    if text in registers:
        return registers[text]
    if re.match(r"0[fd][0-9A-Fa-f]+$", text):
        return float_of(int(text[2:], 16), 4 * len(text[2:]))
    if re.match(r"-?(\d+|0x[0-9A-F]+)U?$", text):
        number = int(text.rstrip("U"), 0)
        return float(number) if operation[-3:-2] == "f" else number & 0xFFFFFFFFFFFFFFFF
    raise Unknown(f"{operation}: {text}")


def step(operation: str, parts: list[str], registers: dict) -> None:
    """One arithmetic instruction."""
    names = operation.split(".")
    kind, size = re.match(r"(s|u|b|f|pred)(\d*)$", names[-1]).groups() if names[-1] else ("", "")
    size = int(size or 1)
    head = names[0]
    if head == "cvta":
        registers[parts[0]] = registers[parts[1]]
        return
    if head == "mov" and "{" in "".join(parts):
        _pack(parts, size, registers)
        return
    given = [value(part, operation, registers) for part in parts[1:] if part not in "+-"]
    if head == "mov":
        source, target = parts[1], parts[0]
        if target.startswith("%f") and not isinstance(given[0], float):
            registers[target] = float_of(given[0] & ((1 << size) - 1), size)
        elif not target.startswith(("%f", "%p")) and isinstance(given[0], float):
            registers[target] = bits_of(given[0], size)
        else:
            registers[target] = bool(given[0]) if target.startswith("%p") else given[0]
        if source.startswith("-") and target.startswith("%r"):
            registers[target] &= (1 << WIDTH[re.match(r"%([a-z]+)", target)[1]]) - 1
    elif head == "cvt":
        _convert(names, parts[0], given[0], registers)
    elif head == "setp":
        a, b = (_as_kind(one, kind, size) for one in given[:2])
        unordered = kind == "f" and (math.isnan(a) or math.isnan(b))
        test = names[1]
        either = kind == "f" and len(test) == 3 and test[-1] == "u"
        registers[parts[0]] = either if unordered else _COMPARE[test[:2]](a, b)
        if unordered and test == "ne":
            registers[parts[0]] = False
        if test in ("nan", "num"):
            registers[parts[0]] = unordered == (test == "nan")
    elif head == "selp":
        chosen = given[0] if given[2] else given[1]
        registers[parts[0]] = chosen if kind == "f" else chosen & ((1 << size) - 1)
    elif head in ("shl", "shr"):
        count = min(given[1] & 0xFFFFFFFF, size)
        number = _as_kind(given[0], kind, size)
        registers[parts[0]] = (number << count if head == "shl" else number >> count) & (
            (1 << size) - 1
        )
    elif head in ("fma", "fused"):
        a, b, c = given[:3]
        if head == "fused":
            a, c = (-a if parts[4] == "-" else a), (-c if parts[5] == "-" else c)
        registers[parts[0]] = fused(a, b, c, size)
    elif head in ("clz", "brev"):
        text = f"{given[0] & ((1 << size) - 1):0{size}b}"
        first = text.find("1") if "1" in text else size
        registers[parts[0]] = int(text[::-1], 2) if head == "brev" else first
    elif kind == "f" and head in FLOATS:
        if size == 16:
            given = [float_of(one, 16) for one in given]
        result = rounded(FLOATS[head](*given), size)
        registers[parts[0]] = bits_of(result, 16) if size == 16 else result
    elif kind == "pred":
        registers[parts[0]] = bool(INTEGERS[head](*map(bool, given)) & 1)
    else:
        name = ".".join(names[:-1])
        if name not in INTEGERS:
            raise Unknown(operation)
        result = INTEGERS[name](*(_as_kind(one, kind, size) for one in given))
        result = result >> size if name == "mul.hi" else result
        width = 2 * size if name == "mul.wide" else 32 if name == "popc" else size
        registers[parts[0]] = result & ((1 << width) - 1)


def _as_kind(number, kind: str, size: int):
    if kind == "f":
        return float_of(number, 16) if size == 16 else number
    return signed(number, size) if kind == "s" else number & ((1 << size) - 1)


def _pack(parts: list[str], size: int, registers: dict) -> None:
    """``mov.b64 {low, high}, d`` and back."""
    names = re.findall(r"[%\w$]+", parts[0 if parts[0].startswith("{") else 1])
    if parts[0].startswith("{"):
        raw = value(parts[1], "b64", registers)
        raw = bits_of(raw, size) if isinstance(raw, float) else raw
        for number, name in enumerate(names):
            registers[name] = raw >> (number * size // 2) & ((1 << size // 2) - 1)
    else:
        low, high = (value(name, "b64", registers) & ((1 << size // 2) - 1) for name in names)
        raw = high << size // 2 | low
        registers[parts[0]] = float_of(raw, size) if parts[0].startswith("%f") else raw


def _convert(names: list[str], target: str, given, registers: dict) -> None:
    (new, wide), (old, narrow) = ((name[0], int(name[1:])) for name in names[-2:])
    mode = next((name for name in names if name in ("rzi", "rni", "rmi", "rpi")), None)
    if old == "f":
        x = float_of(given, 16) if narrow == 16 else given
        x = whole(x, mode) if mode else x
        if new == "f":
            x = rounded(x, wide)
            x = min(1.0, max(0.0, 0.0 if math.isnan(x) else x)) if "sat" in names else x
            registers[target] = bits_of(x, 16) if wide == 16 else x
            return
        number = to_integer(x, new, wide, narrow)
    else:
        number = signed(given, narrow) if old == "s" else given & ((1 << narrow) - 1)
        if new == "f":
            x = rounded(Fraction(number), wide) if number else 0.0
            x = float(np.float32(number)) if wide == 32 and abs(number) < 1 << 24 else x
            if wide == 32 and abs(number) >= 1 << 53:
                x = _single(number)
            registers[target] = bits_of(x, 16) if wide == 16 else x
            return
    set_register(registers, target, new if wide < 64 else "u", wide, number)


def _single(number: int) -> float:
    """A large integer as float32, rounded once."""
    size = abs(number)
    drop = size.bit_length() - 24
    up, rest = size >> drop, size & ((1 << drop) - 1)
    up += rest > 1 << (drop - 1) or (rest == 1 << (drop - 1) and up & 1)
    return math.copysign(up << drop, number)
