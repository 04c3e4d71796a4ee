"""Ranks of one machine add up in memory that they share: real processes, late, killed and frozen ones."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlcb.errors import PeerLost
from rlcb.training import server
from rlcb.training.ranks import GLOOS_THREAD, Alone
from tests.ranks import run_ranks, together

LENGTH = 100_003  # which no number of ranks divides
SUMS = 150
TIMEOUT = 2.0


def values(rank: int, turn: int, length: int = LENGTH) -> Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(1000 * rank + turn))


def expected(size: int, turn: int, length: int = LENGTH) -> Tensor:
    """Neighbours, then neighbours of those."""
    mine = [values(rank, turn, length) for rank in range(size)]
    total = mine[0] + mine[1]
    return total if size == 2 else total + mine[2] if size == 3 else total + (mine[2] + mine[3])


def shared_memory() -> set[str]:
    """The files of this process's memory that others can have too."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if "/memfd:rlcb" in line or "/dev/shm/" in line}


def priorities_of_gloo() -> set[int]:
    threads = [thread for thread in Path("/proc/self/task").iterdir() if GLOOS_THREAD in (thread / "comm").read_text()]
    return {os.getpriority(os.PRIO_PROCESS, int(thread.name)) for thread in threads}


def add_up_often(index: int, size: int, folder: Path) -> None:
    lateness = random.Random(index)
    with together(index, size, folder, local=size) as ranks:
        for turn in range(SUMS):
            mine = values(index, turn)
            if lateness.random() < 0.3:
                time.sleep(lateness.random() * 0.005)
            ranks.sum(mine)
            if lateness.random() < 0.3:  # what is not ours any more may change now
                time.sleep(lateness.random() * 0.005)
            assert torch.equal(mine, expected(size, turn)), f"rank {index}, sum {turn}"
        assert len(ranks.take_exchanges()) == SUMS
        assert shared_memory() == {"/memfd:rlcb-sum (deleted)"}
        opened = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        assert not [name for name in opened if "memfd" in name], "still open"
        assert priorities_of_gloo() == {19}, "of all its threads, and there are some"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_many_sums_of_late_ranks_are_right_to_the_bit(size: int, tmp_path: Path) -> None:
    run_ranks(size, add_up_often, size, tmp_path)


CASES = ["two hosts", "half precision", "no memory", "no way to it"]


def add_up_otherwise(index: int, folder: Path) -> None:
    for case in CASES:
        local, half = 1 if case == "two hosts" else 2, case == "half precision"
        mine, both = values(index, 0), expected(2, 0)
        with together(index, 2, folder / case, local, half=half) as ranks:
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            if (case, index) in (("no memory", 0), ("no way to it", 1)):
                resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
            ranks.mean(mine)
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        torch.testing.assert_close(mine, both / 2, rtol=0, atol=1e-2 if half else 1e-6, msg=case)
        assert shared_memory() == set(), case


def test_the_rest_goes_through_gloo(tmp_path: Path) -> None:
    """One rank that cannot make or open the memory is enough for nobody to use it."""
    run_ranks(2, add_up_otherwise, tmp_path)


def add_up_on_two_machines(index: int, folder: Path) -> None:
    """First as they are; then compressed on the way from one machine to the other, and not within."""
    for half in (False, True):
        lateness = random.Random(index)
        with together(index, 4, folder / str(half), local=2, half=half) as ranks:
            for turn in range(SUMS // 5):
                mine = values(index, turn)
                if lateness.random() < 0.3:
                    time.sleep(lateness.random() * 0.005)
                ranks.mean(mine)
                first, second = ((values(r, turn) + values(r + 1, turn)) / 4 for r in (0, 2))
                mean = (first.half() + second.half()).float() if half else expected(4, turn) / 4
                assert torch.equal(mine, mean), f"rank {index}, mean {turn}"
            assert shared_memory() == {"/memfd:rlcb-sum (deleted)"}
            for few in (values(index, 0, 7), values(index, 0, 7).double()):
                ranks.sum(few)
                torch.testing.assert_close(few, expected(4, 0, 7).to(few.dtype))
            assert ranks.gather(f"from {index}") == ([f"from {rank}" for rank in range(4)] if index == 0 else [])
            if index == 0:
                ranks.tell(3.0, 0.5)
            else:
                assert ranks.told(2) == [3.0, 0.5]


def test_machines_add_up_their_own_before_they_talk(tmp_path: Path) -> None:
    run_ranks(4, add_up_on_two_machines, tmp_path)


def add_up_without_memory(index: int, folder: Path) -> None:
    """On three machines with one or two ranks; one of those cannot open anything."""
    for local, half in ((1, False), (2, False), (2, True)):
        size = 3 * local
        if index >= size:
            continue
        with together(index, size, folder / f"{local}{half}", local, half=half) as ranks:
            mine, limits = values(index, 0), resource.getrlimit(resource.RLIMIT_NOFILE)
            if index == 3:
                resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
            ranks.mean(mine)
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            exact = torch.stack([values(rank, 0) for rank in range(size)]).mean(0)
            torch.testing.assert_close(mine, exact, rtol=0, atol=1e-2 if half else 1e-6)
            assert ranks.gather(index) == (list(range(size)) if index == 0 else [])
        assert shared_memory() == set()


def test_machines_that_cannot_share_memory(tmp_path: Path) -> None:
    run_ranks(6, add_up_without_memory, tmp_path)


def add_up_on_unequal_machines(index: int, folder: Path) -> None:
    with together(index, 3, folder, local=1 if index == 0 else 2) as ranks:
        mine = values(index, 0)
        ranks.sum(mine)
        torch.testing.assert_close(mine, expected(3, 0))
        assert shared_memory() == set()


def test_machines_with_different_numbers_of_ranks(tmp_path: Path) -> None:
    run_ranks(3, add_up_on_unequal_machines, tmp_path)


def add_up_rows(index: int, folder: Path) -> None:
    rows = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with together(index, 4, folder, local=4) as ranks:
        assert torch.equal(ranks.total(rows[2 * index : 2 * index + 2]), Alone().total(rows))


def test_a_total_does_not_depend_on_who_has_which_rows(tmp_path: Path) -> None:
    run_ranks(4, add_up_rows, tmp_path)


def lose_one(index: int, folder: Path, how: signal.Signals, lost: int, local: int, heard: Any) -> None:
    """After a few sums. All take part in sums of their machine; the first of each talks to others."""
    with together(index, 4, folder, local=local, timeout=TIMEOUT) as ranks:
        for turn in range(3):
            ranks.sum(values(index, turn))
        if index == lost:
            os.kill(os.getpid(), how)
        begin = time.monotonic()
        try:
            ranks.sum(values(index, 3))
        except PeerLost:
            heard.put((index, time.monotonic() - begin))
        time.sleep(TIMEOUT)  # a connection that we close would be news to the others


@pytest.mark.parametrize(
    ("how", "lost", "local"),
    [
        (signal.SIGKILL, 3, 4),
        (signal.SIGSTOP, 3, 4),
        (signal.SIGKILL, 2, 2),  # the one that talks for the second machine
        (signal.SIGSTOP, 3, 2),  # the one beside it
    ],
)
def test_who_is_killed_or_frozen_is_lost_in_time(how: signal.Signals, lost: int, local: int, tmp_path: Path) -> None:
    server.start()
    context = multiprocessing.get_context("forkserver")
    heard = context.Queue()
    arguments = (tmp_path, how, lost, local, heard)
    ranks = [context.Process(target=lose_one, args=(index, *arguments)) for index in range(4)]
    for rank in ranks:
        rank.start()
    try:
        found = dict(heard.get(timeout=60) for _ in range(3))
    finally:
        for rank in ranks:
            rank.kill()
            rank.join(30)
    assert set(found) == {0, 1, 2, 3} - {lost}
    assert all(seconds < TIMEOUT + 2 for seconds in found.values()), found


def leave_before_telling(index: int, folder: Path) -> None:
    """Rank 0 goes before the first sum: there is nothing that the others could open."""
    with together(index, 2, folder, local=2, timeout=TIMEOUT) as ranks:
        if index == 0:
            os._exit(0)
        with pytest.raises(PeerLost):
            ranks.sum(values(index, 0))
        (folder / "heard").touch()


def test_who_is_lost_before_there_is_memory_is_lost(tmp_path: Path) -> None:
    run_ranks(2, leave_before_telling, tmp_path)
    assert (tmp_path / "heard").exists()
