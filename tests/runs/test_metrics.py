from __future__ import annotations

import time
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlcb.runs.files import read_json_lines
from rlcb.runs.metrics import MetricsLog, as_columns


def write(log: MetricsLog, updates: range, offset: float = 0.0) -> None:
    for update in updates:
        log.write({"updates": update, "timesteps": 10 * update, "train/loss": update + offset})


def test_lines_and_tensorboard_say_the_same(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        write(log, range(1, 4))
    assert [record["train/loss"] for record in read_json_lines(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("train/loss")
    assert [(event.step, event.value) for event in events] == [(10, 1.0), (20, 2.0), (30, 3.0)]


def test_a_resumed_log_has_no_double_and_no_zigzag(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        write(log, range(1, 8))
    time.sleep(1)  # TensorBoard names its files by the second, and reads them in the order of their names
    with MetricsLog(tmp_path, updates=4, timesteps=40) as log:
        write(log, range(5, 10), offset=0.5)
    expected = [1, 2, 3, 4, 5.5, 6.5, 7.5, 8.5, 9.5]
    assert [record["train/loss"] for record in read_json_lines(tmp_path / "metrics.jsonl")] == expected
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("train/loss")
    assert [event.value for event in events] == expected
    assert [event.step for event in events] == list(range(10, 100, 10))


def test_columns_have_gaps_where_records_have_none() -> None:
    assert as_columns([{"a": 1}, {"a": 2, "b": 3}]) == {"a": [1, 2], "b": [None, 3]}
