"""Write requirements.txt and requirements-dev.txt: every package, at the version that is installed here (make lock)."""

from __future__ import annotations

from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "rl-cluster-benchmark"
HEAD = "# Every package and its version, written by `make lock`. Direct dependencies are in pyproject.toml.\n"


def closure(extra: str) -> set[str]:
    """Names of the distributions that the project needs, directly or not."""
    seen: set[str] = set()
    todo = [(PROJECT, extra)]
    while todo:
        name, wanted = todo.pop()
        for text in requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate({"extra": wanted}):
                continue
            needed = canonicalize_name(requirement.name)
            if needed not in seen:
                seen.add(needed)
                todo.append((needed, ""))
    return seen


def pins(names: set[str]) -> str:
    versions = {name: distribution(name).version.partition("+")[0] for name in names}
    return "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


needed, for_developers = closure(""), closure("dev")
Path("requirements.txt").write_text(f"{HEAD}{pins(needed)}-e .\n")
Path("requirements-dev.txt").write_text(f"{HEAD}-r requirements.txt\n{pins(for_developers - needed)}")
