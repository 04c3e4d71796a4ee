"""Documents say what the code does."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys

import pytest

from rlcb.cli import COMMANDS
from tests.conftest import ROOT

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "QUICKSTART.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_the_configuration_reference_is_up_to_date() -> None:
    tool = runpy.run_path(str(ROOT / "tools/reference.py"))
    text = (ROOT / "docs/training.md").read_text()
    assert tool["renewed"](text) == text, "run make docs"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: object) -> None:
    path = ROOT / str(document)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_make_targets_that_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
    for document in DOCUMENTS:
        named = set(re.findall(r"`make ([a-z-]+)", document.read_text()))
        assert named <= targets, document.name


def test_flags_that_documents_name_exist() -> None:
    texts = [
        subprocess.run(
            [sys.executable, "-m", "rlcb", command, "--help"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for command in COMMANDS
    ]
    known = set(re.findall(r"--[a-z-]+", " ".join(texts)))
    for document in DOCUMENTS:
        for line in re.findall(r"^(?:\S*rlcb|python (?:train|evaluate)\S*) .*$", document.read_text(), re.M):
            for flag in re.findall(r"(?<=\s)--[a-z-]+", line.partition("#")[0]):
                assert flag in known, f"{document.name}: {line}"


def test_requirements_pin_everything() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text().splitlines():
            assert line.startswith(("#", "-")) or "==" in line, line
    assert "torch==2.13.0\n" in (ROOT / "requirements.txt").read_text()
