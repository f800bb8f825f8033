"""Who imports whom: arrows run down, in no circle, and a lesson's text takes names from faces.

Read from the source: an import inside a function counts, one under ``TYPE_CHECKING`` does not.
"""

import ast
import functools
import importlib
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tests.house import places
from tools.notebooks import lessons

ROOT = Path(__file__).resolve().parents[2]

#: What each package may import of the others.
BELOW = {
    "warpsim": set(),
    "course": {"warpsim"},
    "course_models": {"course", "warpsim"},
    "course_app": {"course_models", "course", "warpsim"},
    "course_lessons": {"course_app", "course_models", "course", "warpsim"},
    "course_recording": {"course_lessons", "course_app", "course_models", "course", "warpsim"},
    "tools": {
        "course_recording",
        "course_lessons",
        "course_app",
        "course_models",
        "course",
        "warpsim",
    },
}
#: check() finds the exercises in the lessons' folders by their names.
BY_NAME = {("course.checks.exercises", "course_lessons")}

#: Of the course, a lesson's text imports these too; the last where PyTorch is.
SHARED = ("course.kernels", "course_models", "course.torch", "course_app", "warpsim.ptx")
MOST_MODULES = 12  # directly in course/

#: Folders whose own files are places each; elsewhere a folder is one.
FILES_ARE_PLACES = ("course", "course/kernels", "course_models", "tools")
STATEMENTS = ast.stmt, ast.excepthandler, ast.match_case


@dataclass(frozen=True)
class Import:
    """Something that a file imports, as in ``from module import name as called``.

    Of ``import module`` there is no name.
    """

    module: str
    name: str | None
    called: str
    line: int
    lazy: bool  # inside a function
    typing: bool  # only for annotations

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@functools.cache
def files() -> dict[str, Path]:
    """Each module of the repository's packages, and its file."""
    found = {}
    for top in BELOW:
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(files()[module].read_text(encoding="utf-8"))


@functools.cache
def imports(module: str) -> tuple[Import, ...]:
    return tuple(_imports(tree(module), lazy=False, typing=False))


def _imports(node: ast.AST, lazy: bool, typing: bool) -> Iterator[Import]:
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: write the package's whole name"
        for name in node.names:
            called = name.asname or name.name
            yield Import(node.module, name.name, called, node.lineno, lazy, typing)
    elif isinstance(node, ast.Import):
        for name in node.names:
            yield Import(name.name, None, name.asname or name.name, node.lineno, lazy, typing)
    inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for child in node.body:
            yield from _imports(child, inside, True)
        for child in node.orelse:
            yield from _imports(child, inside, typing)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, STATEMENTS):  # no import stands in an expression
            yield from _imports(child, inside, typing)


def target(one: Import) -> str | None:
    """The module of this repository that an import means, if any."""
    whole = f"{one.module}.{one.name}"
    return next((name for name in (whole, one.module) if name in files()), None)


def place(module: str, one: Import) -> str:
    return f"{files()[module].relative_to(ROOT)}:{one.line}"


# --- arrows --------------------------------------------------------------------------------------


def place_of(module: str) -> str:
    """The folder that a module lies in; of some folders each file is a place of its own."""
    path = files()[module].relative_to(ROOT).with_suffix("")
    if path.name != "__init__" and path.parent.as_posix() in FILES_ARE_PLACES:
        return path.as_posix()
    return path.parent.as_posix()


def home(one: Import) -> str | None:
    """The module that an import loads: of a face's name the one that defines it."""
    found = target(one)
    if found != one.module or one.name not in faces().get(found, {}):
        return found
    defined = faces()[found][one.name]
    while defined not in files():
        defined = defined.rpartition(".")[0]
    return defined


@functools.cache
def loads(module: str) -> frozenset[str]:
    """The other modules of this repository that a module imports."""
    found = {home(one) for one in imports(module) if not one.typing}
    return frozenset(found - {None, module})


@functools.cache
def allowed(place: str) -> frozenset[str]:
    found = set()
    for word in places.ALLOWED[place].split():
        found |= {word[1:], *allowed(word[1:])} if word[0] == "+" else {word}
    return frozenset(found)


def is_below(place: str, other: str) -> bool:
    if place in places.ALLOWED:
        return other in allowed(place)
    here, there = (places.PACKAGES.index(one.partition("/")[0]) for one in (place, other))
    return there <= here


def test_a_place_imports_only_those_that_it_may():
    upwards = {
        (module, other)
        for module in files()
        for other in loads(module)
        if place_of(module) != place_of(other) and not is_below(place_of(module), place_of(other))
    }
    assert not upwards, "imports upwards: CONTRIBUTING, The house"


def test_what_is_allowed_is_no_circle_and_stays_among_packages():
    edges = {place: set(allowed(place)) for place in places.ALLOWED}
    assert circles({place: others & edges.keys() for place, others in edges.items()}) == set()
    named = set(places.ALLOWED).union(*map(allowed, places.ALLOWED))
    assert {place.partition("/")[0] for place in named} <= set(places.PACKAGES)


def test_kernels_import_what_contributing_says():
    allowed = (
        "course.backend", "course.dispatch", "course.heuristics", "course.kernel_cache",
        "course.kernels", "warpsim.ptx",
    )  # fmt: skip
    others = [
        place(module, one)
        for module in files()
        if module.startswith("course.kernels.")
        for one in imports(module)
        if one.top in BELOW and not f"{one.module}.{one.name}".startswith(allowed)
    ]
    assert not others


def test_the_exceptions_are_still_needed():
    assert set(imported_by_name()) == BY_NAME


def imported_by_name() -> Iterator[tuple[str, str]]:
    """Modules that name a package above them in a call of `import_module`, and that package."""
    for module in files():
        top = module.partition(".")[0]
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                for given in node.args[:1]:
                    for part in ast.walk(given):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            named = part.value.partition(".")[0]
                            if named in BELOW.keys() - BELOW[top] - {top}:
                                yield module, named


def test_no_face_names_a_package_above_it():
    for package, home in faces().items():
        allowed = BELOW[package.partition(".")[0]] | {package.partition(".")[0]}
        assert {module.partition(".")[0] for module in home.values()} <= allowed, package


# --- circles -------------------------------------------------------------------------------------


def circles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    """Groups of more than one node in which each leads to each: Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = set()

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.add(frozenset(group))

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return found


def test_circles_are_found():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"f"}, "f": {"e", "a"}}
    assert circles(edges) == {frozenset("bc"), frozenset("ef")}


def test_no_files_import_each_other_in_a_circle():
    assert circles({module: set(loads(module)) for module in files()}) == set()


def test_no_places_import_each_other_in_a_circle():
    edges: dict[str, set[str]] = {place_of(module): set() for module in files()}
    for module in files():
        edges[place_of(module)] |= {place_of(other) for other in loads(module)}
    assert circles({place: others - {place} for place, others in edges.items()}) == set()


# --- lessons -------------------------------------------------------------------------------------


def number_of(module: str) -> int | None:
    found = re.match(r"course_lessons\.lesson(\d\d)\b", module)
    return int(found[1]) if found else None


@pytest.mark.parametrize("module", [name for name in files() if number_of(name) is not None])
def test_a_lesson_takes_nothing_from_a_later_lesson(module):
    for one in imports(module):
        other = number_of(target(one) or one.module)
        assert other is None or other <= number_of(module), place(module, one)


@pytest.mark.parametrize("path", lessons.paths(ROOT), ids=lambda path: path.parent.name)
def test_a_lessons_text_takes_names_from_faces_kernels_models_and_lessons(path):
    course = importlib.import_module("course")
    module = f"course_lessons.{path.parent.name}.{path.stem}"
    for one in imports(module):
        if one.top not in BELOW:
            continue
        if one.module == "course":
            assert one.name in course.__all__, f"{place(module, one)}: {one.name} is in no face"
        elif one.top == "course_lessons":
            assert number_of(target(one) or one.module) is not None, place(module, one)
        else:
            assert one.module.startswith(SHARED), f"{place(module, one)}: {one.module}"


@pytest.mark.parametrize("path", lessons.paths(ROOT), ids=lambda path: path.parent.name)
def test_what_a_text_takes_from_a_module_is_there(path):
    # a cell for machines with a GPU runs nowhere else
    module = f"course_lessons.{path.parent.name}.{path.stem}"
    taken = {}
    for one in imports(module):
        if one.module == "course.torch" and importlib.util.find_spec("torch") is None:
            continue
        if one.top in BELOW and one.name:
            home = importlib.import_module(target(one))
            is_module = home.__name__ == f"{one.module}.{one.name}"
            taken[one.called] = home if is_module else getattr(home, one.name)
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            value = taken.get(node.value.id)
            if isinstance(value, ModuleType):
                where = f"{path.name}:{node.lineno}"
                assert hasattr(value, node.attr), f"{where}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", lessons.paths(ROOT), ids=lambda path: path.parent.name)
def test_the_imports_that_a_text_shows_keep_the_rule_too(path):
    text = path.read_text(encoding="utf-8")
    packages = r"(?:course(?!_lessons)\w*|warpsim|tools)"
    shown = re.findall(rf"\b(?:from|import) ({packages}\.[\w.]+)", text)
    assert not [name for name in shown if not name.startswith(SHARED)]


@pytest.mark.parametrize("path", lessons.paths(ROOT), ids=lambda path: path.parent.name)
def test_the_files_that_a_text_names_are_there(path):
    text = path.read_text(encoding="utf-8")
    named = re.findall(r"`((?:course\w*|warpsim|tools)/[\w/]+\.\w+)`", text)
    assert not [name for name in named if not (ROOT / name).exists()]


# --- faces ---------------------------------------------------------------------------------------


@functools.cache
def faces() -> dict[str, dict[str, str]]:
    """Packages with a face (`course.lazy.face`): each of its names, and where that is defined."""
    found = {}
    for module, path in files().items():
        if "face(" not in path.read_text(encoding="utf-8"):  # every worker asks: parse only these
            continue
        for node in tree(module).body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and ast.unparse(node.value.func) == "face"
            ):
                found[module] = {
                    name: f"{module}.{name}" if home == module else home
                    for home, names in ast.literal_eval(node.value.args[1]).items()
                    for name in names.split()
                }
    return found


def test_the_faces_that_lessons_use_are_found():
    assert faces().keys() >= {
        "course",
        "course.plots",
        "course_lessons.lesson08",
        "course_app.cluster",
    }


@pytest.mark.parametrize("package", faces())
def test_each_name_of_a_face_can_be_loaded(package):
    loaded = importlib.import_module(package)
    assert loaded.__all__ == sorted(faces()[package])
    for name in loaded.__all__:
        assert getattr(loaded, name) is not None or name == "gpu"


@pytest.mark.parametrize("package", faces())
def test_no_name_of_a_face_is_that_of_another_module(package):
    # importing the module would replace the name by it
    for name, home in faces()[package].items():
        whole = f"{package}.{name}"
        assert whole not in files() or home == whole, f"{whole} is a module; the name is in {home}"


def test_a_face_says_which_names_it_has():
    course = importlib.import_module("course")
    with pytest.raises(AttributeError, match="'nothing_of_the_kind'; it has .*benchmark"):
        course.nothing_of_the_kind  # noqa: B018


# --- names ---------------------------------------------------------------------------------------


def bound(node: ast.stmt) -> list[str]:
    """The names that a statement of a module binds, imports apart."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        names = (part for target in node.targets for part in ast.walk(target))
        return [part.id for part in names if isinstance(getattr(part, "ctx", None), ast.Store)
                and isinstance(part, ast.Name)]  # fmt: skip
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [ast.unparse(node.target)]
    return []


def test_no_module_binds_a_name_twice():
    # two files made one, say, that both had a THREADS: the first one's code takes the second's
    texts = {f"course_lessons.{path.parent.name}.{path.stem}" for path in lessons.paths(ROOT)}
    twice = set()
    for module in files().keys() - texts:
        names = Counter(name for node in tree(module).body for name in bound(node))
        names.update({one.asname or one.name for one in imported_at_once(module)})
        twice |= {(module, name) for name, times in names.items() if times > 1}
    assert not twice


def imported_at_once(module: str) -> list[ast.alias]:
    """What the statements of a module import, those inside others apart."""
    statements = [
        node for node in tree(module).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return [name for node in statements for name in node.names]


# --- size ----------------------------------------------------------------------------------------


def test_few_modules_stand_directly_in_the_course():
    assert len(list((ROOT / "course").glob("*.py"))) <= MOST_MODULES


# tests that are about a folder as a whole, or about a lesson's text, pictures and toys
OF_A_FOLDER = {"claims", "compiled", "contract", "drawn", "lesson", "on_gpu", "pictures", "toys"}
# they have no module beside: programs of all kinds, the repository, whole lessons, whole courses
OF_NO_MODULE = {
    "house", "warpsim/programs", "warpsim/test_alone", "course_lessons/test_given",
    "course_lessons/test_instructions", "course_lessons/test_questions",
    "course_lessons/test_serial_twins", "course_lessons/test_what_you_need",
    "course_lessons/test_wrong_answers",
}  # fmt: skip


def test_each_test_lies_where_its_module_does():
    """tests/<package>/<folder>/test_<module>.py; more of one: test_<module>_<what>.py."""
    elsewhere = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(ROOT / "tests")
        if {*map(str, place.parents), str(place.with_suffix(""))} & OF_NO_MODULE:
            continue
        folder, name = ROOT / place.parent, place.stem.removeprefix("test_")
        there = {one.stem for one in folder.glob("*") if one.suffix == ".py" or one.is_dir()}
        if not any(f"{name}_".startswith(f"{one}_") for one in there | {folder.name} | OF_A_FOLDER):
            elsewhere.append(str(place))
    assert not elsewhere
