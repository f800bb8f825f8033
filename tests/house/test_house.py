"""The set-up says one thing everywhere: pyproject.toml, environment.yml, README, Makefile, CI."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from numba import float32

import conftest
from course import cuda
from course.__main__ import make_parser
from course.checks import check
from course.files import data_path
from course.kernels.norm import layer_norm
from course_lessons.edits import solution
from tools import address, choose_extra
from tools.notebooks import lessons
from tools.publish import readme_picture, tracks

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL = (ROOT / "site/install.md").read_text(encoding="utf-8")
COMMAND_LINE = (ROOT / "site/command_line.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))


def command_blocks(text: str) -> list[list[str]]:
    """Return the commands of each fenced block, comments taken off."""
    blocks = re.findall(r"^```(?:bash|powershell)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [
        [re.sub(r"\s+#.*", "", line).strip() for line in block.splitlines()] for block in blocks
    ]


def plain_commands(system: str) -> list[str]:
    blocks = command_blocks(INSTALL.split("## Without make\n")[1])
    return next(block for block in blocks if any(system in line for line in block))


def workflow_commands(job: str) -> list[str]:
    steps = WORKFLOW["jobs"][job]["steps"]
    return [line for step in steps for line in step.get("run", "").splitlines()]


# --- what is installed ---------------------------------------------------------------------------


def requirements(*groups: str) -> set[str]:
    optional = PROJECT["project"]["optional-dependencies"]
    return {name.strip() for group in groups for name in optional[group]}


def test_environment_yml_lists_the_core_lab_and_dev_dependencies_of_pyproject():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = {entry for entry in environment["dependencies"] if isinstance(entry, str)}
    (pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    core = set(PROJECT["project"]["dependencies"])
    wanted = core | requirements("lab", "dev")
    given = (conda | set(pip)) - {"pip", "-e ."}
    assert given - {f"python{PROJECT['project']['requires-python']}"} == wanted
    assert f"python{PROJECT['project']['requires-python']}" in conda
    assert "-e ." in pip


def test_dev_has_the_extra_cluster_so_that_its_tests_run():
    assert requirements("cluster") <= requirements("dev")


def test_every_extra_that_is_mentioned_exists():
    extras = set(PROJECT["project"]["optional-dependencies"])
    for file in (*DOCUMENTS, "environment.yml", ".github/workflows/test.yml"):
        text = (ROOT / file).read_text(encoding="utf-8")
        for names in re.findall(r'pip install -e "\.\[([\w,]+)\]"', text):
            assert set(names.split(",")) <= extras, f"{file} mentions {names}"


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_the_readme_and_the_makefile_install_the_same_extras():
    for target, extras in (("setup", "lab,dev"), ("lab", "lab")):
        dry = ["make", "--dry-run", "--always-make", target]
        done = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True)
        (installed,) = re.findall(r'-e "\.\[([\w,]+)\$\{extra', done.stdout)
        assert installed == extras
    for system in ("source", "Scripts"):
        assert 'pip install -e ".[lab,dev]"' in plain_commands(system)


def test_python_versions_agree():
    oldest, newest = WORKFLOW["jobs"]["make"]["strategy"]["matrix"]["python"]
    assert WORKFLOW["jobs"]["plain"]["strategy"]["matrix"]["python"] == [oldest, newest]
    bound = int(newest.split(".")[1]) + 1
    # one more than is tested throughout, which the wheel is tried with
    tried = WORKFLOW["jobs"]["wheel"]["strategy"]["matrix"]["python"]
    assert tried[-1] == f"3.{bound}"
    assert PROJECT["project"]["requires-python"] == f">={oldest},<3.{bound + 1}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    minors = [f"3.{minor}" for minor in range(int(oldest.split(".")[1]), bound)]
    assert f"Python {', '.join(minors[:-1])} or {minors[-1]}" in README
    assert minors == tried[:-1] == [
        name.rpartition(" ")[2] for name in PROJECT["project"]["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]  # fmt: skip
    searched = (ROOT / "tools/find_python.sh").read_text(encoding="utf-8")
    assert all(f"python{minor}" in searched for minor in minors)


# --- commands ------------------------------------------------------------------------------------


def test_the_workflow_runs_the_two_commands_of_the_readme():
    (clone, lab), *_ = command_blocks(README)
    (test,), *_ = command_blocks(INSTALL)
    commands = [lab, test]
    assert clone.startswith("git clone") and commands == ["make lab", "make test"]
    ran = [
        line.removesuffix(" &").replace(" LAB_ARGS=--no-browser", "")
        for line in workflow_commands("make")
    ]
    assert [line for line in ran if line.startswith("make")] == commands
    assert "LAB_ARGS=--no-browser" in INSTALL
    assert {"ubuntu-latest", "macos-latest"} == set(
        WORKFLOW["jobs"]["make"]["strategy"]["matrix"]["os"]
    )


def test_the_readme_begins_with_a_button_and_two_commands():
    first, rest = without_generated_blocks(README).split("how many times as fast", 1)
    assert len(first.split()) < 160 and len(README.split()) < 1600
    button, clone, picture = (README.index(f"generated: {x}") for x in ("button", "clone", "pict"))
    assert button < clone < picture
    assert "[Windows" in first


def test_the_workflow_runs_the_plain_commands_of_the_readme_on_windows():
    assert WORKFLOW["jobs"]["plain"]["runs-on"] == "windows-latest"
    ran = list(dict.fromkeys(workflow_commands("plain")))
    assert ran == [line for line in plain_commands("Scripts") if not line.startswith("jupyter")]


def test_the_readmes_examples_of_the_command_line_are_accepted():
    (commands,) = command_blocks(COMMAND_LINE)
    for command in commands:
        words = command.split()
        assert words[:3] == ["python", "-m", "course"]
        parsed = make_parser(words[3:]).parse_args(words[3:])
        assert all(Path(ROOT, image).exists() for image in getattr(parsed, "images", ()))
        if folder := getattr(parsed, "out", None) or getattr(parsed, "folder", None):
            ask = ["git", "check-ignore", "-q", f"{folder}/file"]
            assert subprocess.run(ask, cwd=ROOT, check=False).returncode == 0, folder


def test_the_makefile_has_every_target_that_the_readme_names():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:\.?/?)make ([a-z-]+)", README + INSTALL + contributing))
    assert {"lab", "test", "test-all", "setup", "notebooks", "bench", "badges", "lint"} <= targets
    assert named <= targets


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make_lab_sets_up_and_opens_lesson_00_and_passes_on_its_arguments():
    dry = ["make", "--dry-run", "--always-make", "lab", "LAB_ARGS=--no-browser"]
    done = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True)
    (first,) = (ROOT / "notebooks").glob("00_*.ipynb")
    steps = [done.stdout.index(each) for each in ("pip install", "-m tools.work", "-m jupyterlab")]
    assert steps == sorted(steps)
    assert f"=/lab/tree/work/{first.name} --no-browser" in done.stdout[steps[-1] :]


def test_the_paths_that_contributing_names_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tracked = [f"/{path.relative_to(ROOT).as_posix()}" for path in tracked_files()]
    for name in re.findall(r"`([\w.-]+/[\w./-]*)`", text):
        if "NN" not in name and not name.startswith(("build/", "dist/")):
            assert any(f"/{name}" in path for path in tracked), name


PAGES = [
    f"site/{name}.md" for name in
    ("install", "without_a_gpu", "command_line", "cluster", "functions", "caches", "suites")
]  # fmt: skip
DOCUMENTS = (
    "README.md", "CONTRIBUTING.md", "INSTRUCTORS.md", "data/README.md", "warpsim/README.md", *PAGES
)  # fmt: skip


@cuda.jit
def one_too_many(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i] + float32(1)


WALKS = {
    "A verdict that is wrong": lambda: check("square-map", one_too_many, explain=True),
    "The second call of layer_norm": lambda: layer_norm(np.ones((4, 300), np.float32)),
}


@pytest.mark.parametrize("walk", WALKS)
def test_the_files_of_a_walk_run_in_its_order(walk):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"**{walk}.**")[1]
    named = re.findall(r"`(course/[\w/]+\.py)`", text.split("\n\n")[0])
    entered: dict[str, None] = {}
    WALKS[walk]()  # what is called once alone
    sys.setprofile(lambda frame, *_: entered.setdefault(frame.f_code.co_filename))
    try:
        WALKS[walk]()
    finally:
        sys.setprofile(None)
    ran = [Path(file).as_posix().removeprefix(f"{ROOT.as_posix()}/") for file in entered]
    held = "course/dispatch/prepared.py"  # words that the driver is given: no code of its own
    assert [one for one in ran if one in named and one != held] == [n for n in named if n != held]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_modules_that_a_document_runs_are_programs(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    for name in set(re.findall(r"python -m\s+((?:tools|tests|course\w*)\.[\w.]*\w)", text)):
        path = ROOT / name.replace(".", "/")
        program = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
        assert "__main__" in program.read_text(encoding="utf-8"), f"{document}: python -m {name}"


def test_the_files_whose_tests_are_ordered_are_there():
    for name in conftest.SPREAD | conftest.OF_EXERCISES | conftest.IN_SMALL_PARTS:
        assert (ROOT / "tests" / f"{name}.py").is_file(), name


def test_the_kernel_that_contributing_shows_is_the_packages():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Add a kernel")[1]
    shown = text.split("```python\n")[1].split("```")[0]
    assert len(shown.splitlines()) <= 45
    for part in re.split(r"^# (?=course/|tests/)", shown, flags=re.MULTILINE)[1:]:
        path, *lines = part.splitlines()
        there = {line.strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines()}
        assert {line.strip() for line in lines} - {"", "..."} <= there


# --- the public address --------------------------------------------------------------------------


def tracked_files() -> list[Path]:
    """Return the files of the repository; all files where git is missing or this is no clone."""
    try:
        listing = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True
        ).stdout.decode()
        names = [name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git clone: the repository's files cannot be listed")
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def without_generated_blocks(text: str) -> str:
    return re.sub(r"<!-- generated: .*?<!-- end: \w+ -->", "", text, flags=re.DOTALL)


def test_the_public_address_stands_in_one_place():
    repository = address.read().repository.encode()
    holders = []
    for path in tracked_files():
        if path.suffix == ".ipynb" and path.parent.name in ("notebooks", "solutions"):
            continue  # generated, and compared with its source in test_notebooks.py
        if path.name == "CITATION.cff":
            continue  # generated: test_release.py
        content = path.read_bytes()
        if path.name == "README.md":
            content = without_generated_blocks(content.decode()).encode()
        if repository in content:
            holders.append(path.relative_to(ROOT).as_posix())
    assert holders == ["pyproject.toml"]


def test_the_verdict_in_the_readme_is_what_the_check_says():
    shown = re.search(r"<!-- a test compares .*?```text\n(.*?)\n```", README, re.DOTALL)[1]
    name = re.match(r"✗ ([\w-]+): ", shown)[1]
    right = solution(name)
    without = right.source.replace("    cuda.syncthreads()\n", "")
    assert without != right.source
    assert str(check(name, right.define(without, name))) == shown


def test_the_hours_in_the_readme_are_those_of_the_lessons():
    count = {17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "twenty"}[len(lessons.paths())]
    assert re.search(rf"all\s+{count} lessons some \d+ hours", README)
    for sentence, made in tracks.sentences():
        assert [found[0] for found in sentence.finditer(README)] == [made], "run `make notebooks`"


def test_the_readme_is_up_to_date_with_lessons_and_address():
    assert address.readme(README, address.read()) == README, "run `make notebooks`"


def test_the_readmes_picture_is_of_the_recorded_figures_and_its_bars_begin_at_zero():
    picture = (ROOT / readme_picture.FILE).read_text(encoding="utf-8")
    assert picture == readme_picture.svg(), "run `make notebooks`"
    bars = [float(long) for long in re.findall(r'width="([\d.]+)" height="24"', picture)]
    ratios = readme_picture.times_as_fast().values()
    assert np.allclose(np.divide(bars, max(bars)), np.divide([*ratios], max(ratios)), atol=1e-3)


def test_the_readme_links_to_every_page_and_the_site_lists_it():
    index = (ROOT / "site/index.md").read_text(encoding="utf-8").split()
    for page in PAGES:
        assert f"]({page})" in README and Path(page).stem in index, page


def test_every_relative_link_of_the_documents_leads_somewhere():
    for name in (*DOCUMENTS, "LICENSES.md"):
        path = ROOT / name
        text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            assert (path.parent / target).exists(), f"{name} links to {target}"


# --- choosing what to install --------------------------------------------------------------------

SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: {}     |
"""


@pytest.mark.parametrize(
    ("output", "extra", "says"),
    [
        (None, "", "no NVIDIA driver"),
        ("NVIDIA-SMI has failed", "", "names no CUDA version"),
        (SMI.format("11.8"), "", "supports CUDA 11.8"),
        (SMI.format("12.4"), "cuda12", "supports CUDA 12.4"),
        (SMI.format("13.0"), "cuda13", "supports CUDA 13.0"),
        ("| CUDA UMD Version: 13.1 |", "cuda13", "supports CUDA 13.1"),
        (SMI.format("14.2"), "cuda13", "supports CUDA 14.2"),
    ],
)
def test_the_extra_is_one_that_the_driver_runs(output, extra, says):
    chosen, reason = choose_extra.choose(output)
    assert chosen == extra
    assert says in reason
    assert not chosen or chosen in PROJECT["project"]["optional-dependencies"]


@pytest.mark.skipif(os.name == "nt", reason="a stand-in for nvidia-smi is a shell script")
@pytest.mark.parametrize(
    ("script", "extra"), [("echo 'CUDA Version: 12.9'", "cuda12"), ("exit 9", ""), (None, "")]
)
def test_the_driver_is_asked_and_only_the_choice_is_on_standard_output(tmp_path, script, extra):
    if script is not None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "tools.choose_extra"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{extra}\n"
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="the script is for make")
def test_a_python_that_does_not_start_is_passed_over(tmp_path):
    broken = tmp_path / "python3.13"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    script = ["sh", str(ROOT / "tools/find_python.sh")]
    good = {**os.environ, "PYTHON": f"{broken} {sys.executable}"}
    found = subprocess.run(script, env=good, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).samefile(sys.executable)
    bad = {**os.environ, "PYTHON": str(broken)}
    refused = subprocess.run(script, env=bad, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert str(broken) in refused.stderr


def test_parts_are_all_that_is_drawn_and_all_parameters_of_slow_tests(monkeypatch):
    def item(name, *marks):
        found = {mark.name: mark.mark for mark in marks}
        test = SimpleNamespace(name=name, get_closest_marker=found.get)
        if not conftest._is_drawn(test):
            found["slow"] = pytest.mark.slow.mark
        return test

    drawn = [item(f"test[{number}]", pytest.mark.drawn(7)) for number in range(300)]
    slow = [item(f"test_slow[{number}]", pytest.mark.slow) for number in range(60)]
    tests, found = [*drawn, *slow, item("test_once", pytest.mark.slow), item("test_quick[0]")], []
    always = {"test_once", "test_quick[0]"} | {t.name for t in drawn if conftest._is_drawn(t)}
    for part in ("1/3", "2/3", "3/3"):
        monkeypatch.setattr(conftest, "PART", part)
        found.append({test.name for test in tests if conftest._is_of_part(test)})
        assert always < found[-1] and 80 + len(always) < len(found[-1]) < 140 + len(always)
    assert set.union(*found) == {test.name for test in tests}
    assert sum(map(len, found)) == len(tests) + 2 * len(always)
    monkeypatch.setattr(conftest, "PART", "1/3 compiler")
    compiled = [item(f"test[{number}]", pytest.mark.compiler) for number in range(300)]
    assert 60 < sum(map(conftest._is_of_part, compiled)) < 140


# --- the package ---------------------------------------------------------------------------------


def test_import_course_is_quick_and_loads_no_heavy_library():
    program = (
        "import sys, time; start = time.process_time(); import course; "
        "taken = time.process_time() - start; "
        "heavy = {'numba', 'numba.cuda', 'cupy', 'matplotlib', 'pandas'} & set(sys.modules); "
        "print(taken, sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    seconds, heavy = done.stdout.split(maxsplit=1)
    assert heavy.strip() == "[]"
    assert float(seconds) < 1


def test_data_path_finds_the_data_and_says_what_there_is():
    assert data_path().is_dir()
    assert data_path("README.md").is_file()
    with pytest.raises(FileNotFoundError, match=r"no data file 'nowhere/x\.png'; .*README\.md"):
        data_path("nowhere", "x.png")


@pytest.mark.slow
def test_the_wheel_works_by_itself_and_holds_the_data(tmp_path):
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("course-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    data = {
        f"course/{path.relative_to(ROOT).as_posix()}"
        for path in tracked_files()
        if path.is_relative_to(ROOT / "data")
    }
    assert data, "the repository has no data"
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert data | {f"course_lessons/notebooks/{path.name}" for path in notebooks} <= names
    tops = {name.split("/")[0] for name in names}
    packages = {*PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"], "warpsim"}
    assert {top for top in tops if not top.endswith(".dist-info")} == packages
    # outside the clone, with nothing of it on the path
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def python(*words):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    found = python("-c", "from course.files import data_path; print(data_path('README.md'))")
    assert Path(found.strip()).is_relative_to(tmp_path / "site")
    python("-m", "course", "lessons", "mine")
    copied = {path.name: path.read_bytes() for path in (tmp_path / "mine").glob("*.ipynb")}
    assert copied == {path.name: path.read_bytes() for path in notebooks}
    assert "installed by pip" in python("-m", "course", "doctor")


def test_the_plan_and_the_lessons_that_are_there_agree():
    plan = dict(lessons.PLAN)
    assert list(plan) == sorted(plan)
    for path in lessons.paths():
        number, name = lessons.title(lessons.read(path))
        assert plan[number] == name
