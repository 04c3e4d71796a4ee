from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time

import pytest

from rlcb.cpu.memory import MemoryWatch, tree_cpu_seconds, tree_pss

MB = 2**20


def test_memory_of_a_process_counts() -> None:
    """A new one: this one may have freed memory that it has kept."""
    code = f"""
import os
from rlcb.cpu.memory import tree_pss
before = tree_pss(os.getpid())
block = bytearray(b"x") * {100 * MB}
print(tree_pss(os.getpid()) - before)
"""
    grown = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert 95 * MB < grown < 130 * MB


def test_memory_of_children_counts() -> None:
    before = tree_pss(os.getpid())
    code = f"block = bytearray(b'x') * {150 * MB}; print('ready', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        grown = tree_pss(os.getpid()) - before
        child.communicate(b"\n", timeout=20)
    assert 145 * MB < grown < 200 * MB


def test_the_watch_sees_a_peak_that_has_passed() -> None:
    """The memory is mapped by hand: malloc may keep for later what is given back to it."""
    with MemoryWatch(os.getpid(), every_seconds=0.02) as watch:
        start = watch.last
        with mmap.mmap(-1, 200 * MB) as block:
            block[:: mmap.PAGESIZE] = b"x" * (len(block) // mmap.PAGESIZE)
            time.sleep(0.3)
        time.sleep(0.3)
    assert watch.peak - start > 150 * MB
    assert watch.last < watch.peak
    assert start <= watch.mean <= watch.peak


def test_cpu_time_grows_with_work() -> None:
    before = tree_cpu_seconds(os.getpid())
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    assert tree_cpu_seconds(os.getpid()) - before == pytest.approx(0.3, abs=0.15)


def test_cpu_time_of_those_who_ended_counts() -> None:
    before = tree_cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], check=True)
    assert tree_cpu_seconds(os.getpid()) - before >= 0.45


def test_pages_are_gone_through_again_only_where_there_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each time that it takes, training would wait."""
    sampled: list[int] = []

    def look(root: int) -> int:
        time.sleep(0.02)
        sampled.append(tree_pss(root))
        return sampled[-1]

    monkeypatch.setattr("rlcb.cpu.memory.tree_pss", look)
    with MemoryWatch(os.getpid(), every_seconds=0.02) as watch:
        time.sleep(0.5)
        before = len(sampled)
        assert before <= 2, "nothing has changed, unless something else in this process has grown"
        with mmap.mmap(-1, 300 * MB) as block:
            block[:: mmap.PAGESIZE] = b"x" * (len(block) // mmap.PAGESIZE)
            time.sleep(0.5)
            assert len(sampled) > before
            assert watch.last == sampled[-1] > sampled[0] + 250 * MB
        grown = len(sampled)
        time.sleep(0.5)
        assert len(sampled) == grown
    assert len(sampled) == grown + 1
    assert watch.last < watch.peak


def test_looking_at_cpu_time_takes_little_and_says_how_old_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    def look(root: int) -> float:
        time.sleep(0.002)
        looks.append(time.perf_counter())
        return float(len(looks))

    monkeypatch.setattr("rlcb.cpu.memory.tree_cpu_seconds", look)
    began = time.perf_counter()
    watch = MemoryWatch(os.getpid())
    while len(looks) < 4:
        assert time.perf_counter() - began < 60
        usage = watch.usage
        assert usage.cpu_seconds == max(0, len(looks) - 1)
        assert watch.cpu_age <= time.perf_counter() - looks[-1]
    assert len(looks) <= 2 + 0.002 * (time.perf_counter() - began) / 0.002
