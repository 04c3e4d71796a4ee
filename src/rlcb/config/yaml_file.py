"""YAML as people write it, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read_yaml(file: Path) -> Any:
    """Raises a ValueError that says what is wrong with the file, and what to do."""
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be read ({error}); name another file") from error
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise ValueError(f"not valid YAML{line} ({getattr(error, 'problem', error)}); put it right") from error
    except ValueError as error:  # a date that no calendar has
        raise ValueError(f"not valid YAML ({error}); put text into quotes") from error
