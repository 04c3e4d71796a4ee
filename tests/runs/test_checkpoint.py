from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlcb.runs import checkpoint
from rlcb.runs.checkpoint import DamagedCheckpoint, checksum, load_checkpoint, most_trained, run_name, save_checkpoint
from rlcb.runs.files import read_json_lines, write_atomically, write_json

CONTENT = {"weights": {"a": torch.arange(6.0).view(2, 3)}, "update": 3, "name": "x", "list": [1.5, None, True]}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "c.pt", CONTENT)
    loaded = load_checkpoint(tmp_path / "c.pt")
    assert torch.equal(loaded["weights"]["a"], CONTENT["weights"]["a"])  # type: ignore[index]
    assert loaded["list"] == [1.5, None, True]
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]


def test_it_loads_with_weights_only(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "c.pt", CONTENT)
    assert len(torch.load(tmp_path / "c.pt", weights_only=True)["checksum"]) == 64


def test_every_flipped_byte_of_a_tensor_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "c.pt"
    save_checkpoint(file, CONTENT)
    raw = bytearray(file.read_bytes())
    place = raw.index(torch.arange(6.0).numpy().tobytes())
    for offset in range(0, 24, 5):
        torn = bytearray(raw)
        torn[place + offset] ^= 1
        file.write_bytes(torn)
        with pytest.raises(DamagedCheckpoint):
            load_checkpoint(file)


@pytest.mark.parametrize("keep", [0, 10, 500, -1])
def test_a_torn_file_is_noticed(tmp_path: Path, keep: int) -> None:
    file = tmp_path / "c.pt"
    save_checkpoint(file, CONTENT)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DamagedCheckpoint):
        load_checkpoint(file)


def test_a_foreign_file_is_told_from_a_checkpoint(tmp_path: Path) -> None:
    torch.save({"state_dict": {}}, tmp_path / "c.pt")
    with pytest.raises(DamagedCheckpoint, match="not a checkpoint of this project"):
        load_checkpoint(tmp_path / "c.pt")


def test_one_of_an_earlier_version_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as then:
        then.setattr(checkpoint, "FORMAT", 1)
        save_checkpoint(tmp_path / "c.pt", CONTENT)
    with pytest.raises(DamagedCheckpoint, match=r"c.pt: of format 1; this version reads format 2"):
        load_checkpoint(tmp_path / "c.pt")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f"
    write_atomically(file, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_checksums_see_names_types_and_order() -> None:
    variants = [{"a": 1}, {"b": 1}, {"a": 1.0}, {"a": [1]}, {"a": torch.tensor(1)}, {"a": torch.tensor([1])}]
    assert len({checksum(variant) for variant in variants}) == len(variants)


def test_torn_lines_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text('{"updates": 1}\n{"updates": 2}\n{"upda')
    assert read_json_lines(file) == [{"updates": 1}, {"updates": 2}]


def test_json_has_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_the_most_trained_is_found_by_steps_and_not_by_time(tmp_path: Path) -> None:
    def save(label: str, steps: int) -> Path:
        file = tmp_path / f"ppo_sequential_{label}.pt"
        save_checkpoint(file, {"progress": {"timesteps": steps}})
        return file

    passed_over: list[DamagedCheckpoint] = []
    late, final = save("step_900", 900), save("final", 500)  # resumed after its end, and interrupted
    early = save("step_100", 100)
    found = most_trained([final, early, late], passed_over.append)
    assert found is not None
    assert found[0] == late
    late.write_bytes(b"torn")
    found = most_trained([early, final, late], passed_over.append)
    assert found is not None
    assert found[0] == final
    assert len(passed_over) == 1
    assert most_trained([late], passed_over.append) is None
    assert run_name(late) == run_name(final) == "ppo_sequential"
