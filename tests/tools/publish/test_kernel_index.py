"""The index of kernels: every step of every ladder, and links that lead to what they say."""

import re
from pathlib import Path

import pytest

from course.kernels.attention.ladder import attention
from course.kernels.reconstruct.ladder import reconstruct
from course.kernels.softmax.forward import softmax
from tools.publish import kernel_index

ROOT = Path(__file__).resolve().parents[3]
LINK = re.compile(r"\[([^]]*)\]\(([^)#]+)(?:#L(\d+))?\)")


@pytest.fixture(scope="module")
def rows():
    index = kernel_index.Index(ROOT)
    return {(its.ladder.function, its.name): dict(zip(kernel_index.COLUMNS, index.rows(its)))
            for its in kernel_index.steps(ROOT)}  # fmt: skip


@pytest.mark.parametrize("function", [softmax, reconstruct, attention], ids=lambda f: f.__name__)
def test_every_step_has_a_row_in_the_ladders_order(rows, function):
    its = [step for name, step in rows if name == function.ladder.function]
    assert its == list(function.ladder)


def test_a_step_leads_to_all_that_is_about_it(rows):
    its = rows["reconstruct", "tiled"]
    assert "[`reconstruct_tiled`](./course/kernels/reconstruct/" in its["kernels"]
    assert "[05](lessons/05_shared_memory.ipynb)" in its["lessons"]
    assert "`reconstruct-tiled`" in its["exercises"] and "roofline" in its["pictures"]
    assert "cases/reconstruct.py" in its["tests"]
    assert re.search(r"NVIDIA H200 \[4\.\d+ ms\]\(figures/h200-reconstruct\.md\)", its["recorded"])
    assert "`softmax-online`" in rows["softmax", "online"]["exercises"]
    assert "`square-tile`" in rows["reconstruct", "square"]["exercises"]
    assert "`sum-several`" in rows["reduction", "several"]["exercises"]  # its rival


def test_what_a_step_needs_is_said_and_what_there_is_not_is_empty(rows):
    assert rows["attention", "wgmma"]["needs"].startswith("compute capability 9.0; ")
    assert "holds rows of at most … elements" in rows["softmax", "registers"]["needs"]
    assert rows["softmax", "online"]["needs"] == ""
    assert rows["convolution", "naive"]["recorded"] == ""


def test_every_step_has_a_kernel_and_a_test(rows):
    assert [step for step, its in rows.items() if not its["kernels"] or not its["tests"]] == []


def test_every_link_leads_to_a_file_and_to_the_function_that_it_names(rows):
    for its in rows.values():
        for text, target, line in LINK.findall(" ".join(its.values())):
            if target.startswith("figures/"):
                assert (ROOT / "data/measurements" / Path(target).name).with_suffix(".csv").exists()
            elif target.startswith("lessons/"):
                assert (ROOT / "solutions" / Path(target).name).exists()
            else:
                lines = (ROOT / target).read_text(encoding="utf-8").splitlines()
                if text.startswith("`"):
                    near = lines[int(line) - 1 : int(line) + 7]  # decorators stand before it
                    assert any(f"def {text.strip('`')}(" in each for each in near), (text, target)


def test_the_page_has_a_table_for_each_ladder_and_escapes_bars():
    page = kernel_index.page(ROOT, "https://example.org/files")
    assert page.count("| step | kernels |") == page.count("\n## ") >= 15
    assert "(https://example.org/files/course/kernels/" in page
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    bars = len(kernel_index.COLUMNS) + 1
    assert all(len(re.findall(r"(?<!\\)\|", row)) == bars for row in rows) and len(rows) > 60


@pytest.mark.slow
def test_the_command_prints_the_rows_that_have_the_words(capsys):
    kernel_index.main(["softmax", "online"])
    out = capsys.readouterr().out.splitlines()
    assert any(line.startswith("| softmax: `online` |") for line in out)
    assert not any("`transpose`" in line for line in out)
