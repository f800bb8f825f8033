"""Numbers as people write them: "75%", "5/8", "2**8", "7 million", "a quarter", "305 µs", "2-4".

What is read is a value and its unit; `asked` says in which unit a question asks. The vocabulary is
that of guesses at times, bytes, rates, shares and counts: libraries of units know neither shares
nor words, and would be asked for thirty units.
"""

from __future__ import annotations

import ast
import operator
import re
import unicodedata
from typing import NamedTuple

FORMS = '0.75, "75%", "3/4", "2**8", "1.5e-3", "7 million", "twice", "10 times", "305 µs", "2 to 4"'

_SECONDS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "min": 60, "h": 3600}
_WORDS_OF_TIME = {
    "nanosecond": "ns", "microsecond": "µs", "millisecond": "ms", "second": "s", "minute": "min",
    "hour": "h",
}  # fmt: skip
_PREFIXES = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_WORDS_OF_PREFIXES = {"kilo": "k", "mega": "m", "giga": "g", "tera": "t", "peta": "p"}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_BASES = {"b": "bytes", "byte": "bytes", "flop": "operations", "hz": "1/s"}

_SMALL = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen".split()
    )
}
_SMALL |= {
    word: 10 * number
    for number, word in enumerate(
        "twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2
    )
}
_SMALL |= dict.fromkeys(("none", "no", "nothing", "nil", "never"), 0)
_MULTIPLES = {
    "once": 1, "twice": 2, "double": 2, "doubled": 2, "thrice": 3, "triple": 3, "quadruple": 4,
}  # fmt: skip
_LARGE = {
    "dozen": 12, "hundred": 100, "thousand": 1e3, "million": 1e6, "mio": 1e6, "mln": 1e6,
    "billion": 1e9, "bn": 1e9, "trillion": 1e12,
}  # fmt: skip
_PARTS = {
    "half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6,
    "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "sixteenth": 16, "hundredth": 100,
    "thousandth": 1000, "millionth": 1e6,
}  # fmt: skip
_COUNTED = {*_LARGE, *_PARTS}
_ABOUT = re.compile(
    r"(?:(?:about|around|roughly|approximately|approx|ca|circa|some|somewhere|nearly|almost|maybe|"
    r"perhaps|probably|exactly|only|just|over|i think|i guess|i'd say|it is|it's|by|at|"
    r"(?:a )?factor(?: of)?)\b\.?|[~≈≃=:])\s*"
)
_AFTER = re.compile(r"(?:[\s,]*(?:\bor so|\bat all|\bmaybe|\bi think|\bi guess|-?ish\b|[.!?]))+$")
# words behind a number that say nothing about it
_IDLE = set("a an the of as in for per each times time fold x fast long much many it its".split())
COMPARED = set("more less fewer faster slower longer shorter higher lower larger smaller".split())

_PLAIN = r"(?:\d{1,3}(?:[,_' \u202f]\d{3})+(?![\d,])(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_OPERATOR = r"\s*(?:\*\*|\^|[*/÷·⋅+]|\s-\s|[x×](?=\s*10\s*(?:\^|\*\*)))\s*"
_NUMBER = re.compile(
    rf"[-+]?{_PLAIN}(?:{_OPERATOR}[-+]?{_PLAIN})*|[-+]?\binf(?:init(?:e|y|ely))?\b"
)
_ONE_OF = re.compile(r"(?:one|1) (?:out of|of|in) (.+)")
_RANGE = (
    re.compile(r"(?:between|from)\s+(.+?)\s+(?:and|to)\s+(.+)"),
    re.compile(r"(.+?)\s*(?:\.\.+|…|\bto\b)\s*(.+)"),
    re.compile(rf"([x×]?{_PLAIN}[^-\d]*?)\s*(?<![e*^])-\s*([x×]?{_PLAIN}.*)"),
)
_OPERATIONS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip


class Unit(NamedTuple):
    """What is measured, "s" or "bytes/s" or "share", and how much of it the unit is."""

    of: str
    size: float
    is_binary: bool = False


SHARE = Unit("share", 0.01)


class Written(NamedTuple):
    """A number as it was written: its value, its unit if it has one, the words behind it."""

    value: float
    unit: Unit | None = None
    rest: frozenset[str] = frozenset()
    is_range: bool = False
    is_part: bool = False  # a fraction: where percents are asked for, of 100

    def within(self, unit: Unit | None) -> float | None:
        """The value in a unit that is asked for; None where that measures something else."""
        if self.unit is None:
            return self.value * 100 if self.is_part and unit == SHARE else self.value
        if self.unit == SHARE:
            return self.value if unit == SHARE else None if unit else self.value / 100
        if unit is None or unit.of != self.unit.of:
            return None
        size = self.unit.size
        if unit.is_binary and not self.unit.is_binary:  # who is asked for KiB writes KB for it
            size = {_PREFIXES[key]: _BINARY[key] for key in _BINARY}.get(size, size)
        return float(f"{self.value * size / unit.size:.12g}")


def written(text: str) -> Written | None:
    """Read a number, or two with what lies between them; None if the text is neither."""
    text = _plain(text)
    for pattern in _RANGE:
        if found := pattern.fullmatch(text):
            ends = [_single(part) for part in found.groups()]
            if None not in ends and ends[0].value < ends[1].value:
                return _middle(*ends)
    return _single(text)


def asked(question: str, unit: str = "") -> Unit | None:
    """The unit in which a question asks: that of the answer, or one that the question names.

    "1 KiB, times the wait" names none: its unit belongs to a number.
    """
    if unit and (found := unit_of(unit)):
        return found
    words = re.split(r"[\s,;:()\[\]?]+", unicodedata.normalize("NFKC", question))
    for before, word in zip(["", *words], words, strict=False):
        found = unit_of(word)
        if found is None or word in ("us", "s", "h", "b", "B", "min", "second", "minute", "hour"):
            continue
        if not re.fullmatch(r".*\d|a|an|per", before):
            return found
    return None


def unit_of(text: str) -> Unit | None:
    """The unit that a text names: "ms", "KiB", "GB/s", "megabytes per second", "%"."""
    text = " ".join(text.lower().replace("μ", "µ").split())
    if text in ("%", "percent", "per cent", "pct"):
        return SHARE
    text, rate = re.subn(r"\s*(?:/\s*|\bper |\ba )(?:s|sec|second)$|(?<=flop)s$", "", text)
    text = re.sub(r"(?<=[a-z]{3})s$", "", text)
    text = re.sub(r"^([nmuµ])sec$", r"\1s", text)
    if rate == 0 and (time := _WORDS_OF_TIME.get(text, text)) in _SECONDS:
        return Unit("s", _SECONDS[time])
    for word, letter in _WORDS_OF_PREFIXES.items():
        text = re.sub(rf"^{word}(?=byte|flop|b)", letter, text)
    found = re.fullmatch(r"([kmgtp]?)(i?)(b|bytes?|flop|hz)", text.replace("bibyte", "ibyte"))
    if found is None or (found[2] and not found[1]):
        return None
    size = _BINARY[found[1]] if found[2] else _PREFIXES[found[1]]
    return Unit(_BASES[found[3].rstrip("s")] + "/s" * rate, size, bool(found[2]))


def _plain(text: str) -> str:
    """A text in lower case without what says "about", its signs as a keyboard has them."""
    text = re.sub(
        r"(?<=\d)[½⅓⅔¼¾⅛⅜⅝⅞]", lambda its: f"+{unicodedata.numeric(its[0])}", text.strip()
    )
    text = re.sub("[½⅓⅔¼¾⅛⅜⅝⅞]", lambda its: f"{unicodedata.numeric(its[0])}", text)
    text = re.sub("[⁻⁰¹²³⁴-⁹]+", lambda its: "**" + unicodedata.normalize("NFKC", its[0]), text)
    for letter, word in (("[kK]", "thousand"), ("M", "million"), ("G", "billion")):
        text = re.sub(rf"(?<=\d)\s*{letter}(?![\w/])", f" {word}", text)
    text = re.sub("[‐-―−]", "-", text.lower()).replace("μ", "µ").replace("∞", "inf")
    text = re.sub(r"^minus\s+", "-", text.strip(" ()[]\"'"))
    text = re.sub(r"^0,(?=\d+\b)", "0.", text)
    text = re.sub(r"(?<=\d) (?=\d{1,2}/\d)", "+", text)  # 3 1/2
    text = re.sub(r"(?<=\d)(?<!\b1) (?:out of|of|in) (?=\d)", "/", text)
    while found := _ABOUT.match(text):
        text = text[found.end() :]
    return _AFTER.sub("", text)


def _single(text: str) -> Written | None:
    """One number with what stands behind it."""
    if found := _ONE_OF.fullmatch(text):
        many = _single(found[1])
        if many is not None and many.unit is None and many.value > 1:
            return many._replace(value=1 / many.value, is_part=True)
    text = re.sub(r"^[x×]\s*(?=[\d.])", "", text)
    if found := _NUMBER.match(text):
        value, rest = _computed(found[0]), text[found.end() :]
        part = "/" in found[0] and value is not None and 0 < value < 1
        word = re.match(r"\s*([a-z]+)", rest)
        name = word[1].removesuffix("s") if word else ""
        if value is not None and (name in _LARGE or name in _PARTS):
            value *= _LARGE[name] if name in _LARGE else 1 / _PARTS[name]
            part, rest = name in _PARTS, rest[word.end() :]
    elif re.search(r"\d", text):
        return None
    else:
        value, part, rest = _in_words(_tokens(text))
        if value is None and re.match("an? ", text) and unit_of(text.split(" ", 1)[1]):
            value, rest = 1, text.split(" ", 1)[1]  # a second
    if value is None or re.search(r"[\d*^=<>±|]", rest):
        return None
    words = rest.strip(" .").split()
    while part and words and words[0] in ("a", "an", "of"):  # half a second
        del words[0]
    for count in range(min(len(words), 3), 0, -1):
        if unit := unit_of(" ".join(words[:count])):
            behind = set(_tokens(" ".join(words[count:])))
            if unit == SHARE and behind & COMPARED:  # "50% faster" is no half
                return None
            return Written(value, unit, frozenset(behind - _IDLE), is_part=part)
    return Written(value, None, frozenset(set(_tokens(rest)) - _IDLE), is_part=part)


def _middle(low: Written, high: Written) -> Written | None:
    """Between two numbers; the first has the unit of the second where it has none itself."""
    first = low._replace(unit=low.unit or high.unit).within(high.unit)
    if first is None:
        return None
    return high._replace(value=(first + high.value) / 2, rest=low.rest | high.rest, is_range=True)


def _tokens(text: str) -> list[str]:
    return re.findall(r"[a-zµ]+|%", text)


def _in_words(words: list[str]) -> tuple[float | None, bool, str]:
    """A number that begins a text as words, whether it is a fraction, and the text behind it."""
    total = current = 0.0
    place, part = 0, False
    while place < len(words):
        word, following = words[place], words[place + 1] if place + 1 < len(words) else ""
        single = word.removesuffix("s")
        if word in ("a", "an") and ({following, following.removesuffix("s")} & _COUNTED):
            current += not place
        elif word in _MULTIPLES:
            current, part = current + _MULTIPLES[word], True
        elif word.removesuffix("fold") in _SMALL:
            small, before = _SMALL[word.removesuffix("fold")], words[place - 1] if place else ""
            if before in _SMALL and not (_SMALL[before] >= 20 and small < 10):
                break  # "two, four"
            current += small
        elif word == "hundred":
            current = (current or 1) * 100
        elif single in _LARGE:
            total, current, part = total + (current or 1) * _LARGE[single], 0, False
        elif single in _PARTS or word in ("halves", "halved"):
            size = 1 / _PARTS.get(single, 2)
            mixed = place > 1 and "and" in words[place - 2 : place]
            current = current + size if mixed else (current or 1) * size
            part = not mixed
        elif word != "and" or not place or following not in ("a", "an", *_PARTS):
            if word != "and" or words[place - 1] not in _LARGE or following not in _SMALL:
                break
        place += 1
    return (total + current if place else None), part, " ".join(words[place:])


def _computed(text: str) -> float | None:
    """The value of sums, products and powers of numbers; None where it has none."""
    if "inf" in text:
        return float(text[:1].strip("i") + "inf")
    text = re.sub(r"(?<=\d)[,_' \u202f](?=\d{3})", "", text)
    text = re.sub(r"(?<![\d.])0+(?=\d)", "", re.sub("[x×·⋅]", "*", text.replace("÷", "/")))

    def value(node: ast.AST) -> float:
        if isinstance(node, ast.BinOp):
            return float(_OPERATIONS[type(node.op)](value(node.left), value(node.right)))
        if isinstance(node, ast.UnaryOp):
            return _OPERATIONS[type(node.op)](value(node.operand))
        return float(node.value)

    try:
        result = value(ast.parse(text.replace("^", "**"), mode="eval").body)
    except (SyntaxError, ArithmeticError):
        return None
    return result
