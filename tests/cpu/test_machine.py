from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlcb.cpu.machine import machine, usable_cpus
from rlcb.cpu.phases import Phases
from rlcb.cpu.threads import choose_threads
from tests.conftest import ROOT


def test_the_machine_is_described() -> None:
    here = machine()
    assert here.cpu
    assert 1 <= here.cores <= here.threads == len(usable_cpus())
    assert here.memory_gb > 0.5


def test_threads_are_as_asked_or_one_per_core() -> None:
    assert choose_threads(1).number == 1
    assert choose_threads(None).number == machine().cores
    assert choose_threads(10_000, processes=10_000).number == 1
    too_many = choose_threads(10_000)
    assert too_many.number == len(usable_cpus())
    assert "10000 were asked for" in too_many.reason


@pytest.mark.skipif(len(usable_cpus()) < 2, reason="one CPU cannot be taken away")
def test_a_process_that_may_use_one_cpu_gets_one_thread() -> None:
    code = "from rlcb.cpu.threads import choose_threads; print(choose_threads(None).number)"
    first = min(usable_cpus())
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{first}]); {code}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "1"


def page_faults(keep: bool) -> list[int]:
    """Of three updates, in a process whose shell says something else about threads, and about memory what glibc does at
    first: it learns to keep blocks, or not, depending on where in memory they happen to lie."""
    code = (
        "import resource\n"
        "from rlcb.cpu.allocator import keep_freed_memory\n"
        "from rlcb.cpu.threads import apply_threads, prepare_threads\n"
        f"assert not {keep} or keep_freed_memory()\n"
        "prepare_threads(1)\n"
        "import torch\n"
        "apply_threads(1)\n"
        "assert torch.get_num_threads() == 1\n"
        "from rlcb.training.lockstep import Lockstep\n"
        "from rlcb.training.ranks import Alone\n"
        "from tests.conftest import tiny_config\n"
        "run = Lockstep(tiny_config('ppo', {'training.n_steps': 64, 'training.batch_size': 512}), Alone())\n"
        "for _ in range(3):\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    run.update(1e-3)\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "7", "MALLOC_MMAP_THRESHOLD_": str(128 * 2**10)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60, env=environment)
    return [int(line) for line in done.stdout.split()]


def test_nothing_needs_to_be_exported() -> None:
    """Torch has the threads that were chosen, and memory is not fetched from the kernel again at every update."""
    kept, returned = page_faults(keep=True), page_faults(keep=False)
    assert kept[-1] < returned[-1] / 10


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(
    not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text(), reason="this kernel gives no huge pages"
)
def test_memory_comes_in_huge_pages() -> None:
    code = (
        "from rlcb.cpu.allocator import keep_freed_memory\n"
        "assert keep_freed_memory()\n"
        "block = bytearray(64 * 2**20)\n"
        "print(open('/proc/self/smaps_rollup').read())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    rollup = {words[0]: int(words[1]) for line in done.stdout.splitlines()[1:] if len(words := line.split()) == 3}
    assert rollup["AnonHugePages:"] >= 60 * 2**10


def test_phases_are_laps() -> None:
    phases = Phases()
    time.sleep(0.01)
    phases.mark("other")
    phases.mark("act")
    phases.mark("learn")
    taken = phases.take()
    assert taken["other"] == 0, "the first mark starts the clock"
    assert taken["act"] > 0
    assert taken["environment"] == 0
    assert phases.take() == dict.fromkeys(taken, 0.0)
