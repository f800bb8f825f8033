"""Before a version is published: one version everywhere, no placeholder, whole templates."""

import shutil
import zipfile

import pytest
import yaml

from course import __version__
from tests.tools.little_course import WHERE, build, make
from tools import address, release
from tools.notebooks import lessons, seals

ROOT = lessons.ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = make(tmp_path_factory.mktemp("built"))
    assert build(root / "course_lessons/lesson00/sample.py") == []
    (root / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    address.write(WHERE, root)
    return root


@pytest.fixture
def root(built, tmp_path, monkeypatch):
    """A repository with one lesson that is ready to be published as version 9."""
    monkeypatch.setattr(release.warpsim, "__version__", "9")
    root = shutil.copytree(built, tmp_path / "root")
    (root / "CHANGELOG.md").write_text("# Changes\n\n## 9 (2027-01-31)\n\n- All.\n")
    address.refresh_citation(WHERE, root)
    return root


def wheel(root, name="course-9-py3-none-any.whl", **changed):
    target = root / name
    with zipfile.ZipFile(target, "w") as archive:
        for path in seals.notebooks(root, "notebooks"):
            archive.writestr(f"course_lessons/notebooks/{path.name}", path.read_bytes())
        for inside, text in changed.items():
            archive.writestr(inside, text)
    return target


def test_what_is_ready_has_no_problem(root):
    assert release.address_problems(root, "9") == []
    assert release.notebook_problems(root) == []
    assert release.wheel_problems(root, wheel(root), "9") == []
    assert release.site_problems(root, root / "nowhere", "9") == []


def test_a_placeholder_another_tag_and_an_undated_changelog_are_named(root):
    address.write(address.Address(address.PLACEHOLDER, "main"), root)
    (root / "CHANGELOG.md").write_text("## 9 (not released)\n")
    placeholder, tag, changes, citation = release.address_problems(root, "9")
    assert placeholder.endswith("make badges REPO=owner/name")
    assert "make badges TAG=v9" in tag and "## 9 (YYYY-MM-DD)" in changes
    assert citation.startswith("CITATION.cff is of another")


def test_notebooks_of_another_tag_are_named(root):
    address.write(address.Address(WHERE.repository, "v10"), root)
    for kind, problem in zip(seals.KINDS, release.notebook_problems(root), strict=True):
        assert problem.startswith(f"{kind}/00_sample.ipynb is not of this version")


def test_a_wheel_of_another_version_with_other_notebooks_or_a_placeholder_is_named(root):
    made = wheel(root, **{"course/x.py": f"see {address.PLACEHOLDER}"})
    (other, holder) = release.wheel_problems(root, made, "10")
    assert "is not of version 10" in other and "stands in course/x.py" in holder
    (root / "notebooks/00_sample.ipynb").write_text("{}")
    assert any(
        "is not the repository's" in each for each in release.wheel_problems(root, made, "9")
    )


def test_a_site_of_another_version_or_with_other_notebooks_is_named(root):
    site = root / "html"
    site.mkdir()
    (site / "objects.inv").write_bytes(
        b"# Sphinx inventory version 2\n# Project: x\n# Version: 8\n"
    )
    (site / "00_sample.ipynb").write_text("{}")
    version, notebook = release.site_problems(root, site, "9")
    assert "is of version 8: make site" in version and "00_sample.ipynb" in notebook


def test_a_simulator_of_another_version_is_named(root, monkeypatch):
    monkeypatch.setattr(release.warpsim, "__version__", "8")
    assert release.address_problems(root, "9") == [
        "warpsim is 8, the course 9: the two go together"
    ]


def test_a_wheel_that_no_index_can_show_is_named(root):
    pytest.importorskip("twine", reason="the extra release is missing")
    head = "Metadata-Version: 2.1\nName: course\nVersion: 9\n"
    described = "Description-Content-Type: text/markdown\n\nA course."
    info = "course-9.dist-info/METADATA"
    assert release.twine_problems([wheel(root, **{info: head + described})]) == []
    (said,) = release.twine_problems([wheel(root, **{info: head})])
    assert "long_description" in said


def test_the_workflow_publishes_what_make_release_has_nothing_against():
    text = (ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    made = [step.get("run", "").split()[:2] for step in jobs["wheels"]["steps"]]
    assert ["make", "release"] in made and jobs["publish"]["needs"] == "wheels"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "permissions" not in jobs["wheels"] and "secrets." not in text


def test_the_citation_is_up_to_date_and_of_the_one_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert text == address.citation(address.read()), "run `make notebooks`"
    facts = yaml.safe_load(text)
    assert str(facts["version"]) == __version__ and facts["authors"] and facts["title"]
    assert f"## {__version__} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_issue_templates_are_forms_that_ask_for_something():
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem == "config":
            continue
        assert form["name"] and form["description"]
        assert any(part.get("validations", {}).get("required") for part in form["body"])
    assert len(forms) == 4
