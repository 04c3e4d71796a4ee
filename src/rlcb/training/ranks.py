"""The processes that learn together."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from rlcb.algorithms import Ranks as Reduction
from rlcb.cpu.phases import Phases
from rlcb.errors import PeerLost, TrainingFailed
from rlcb.training.barrier import CLOSED
from rlcb.training.shared_sum import SharedSum, make_shared_sum

STORE_FILE = "RLCB_STORE_FILE"  # where ranks of one machine find each other
STORE_HOST = "RLCB_STORE_HOST"  # host:port, where ranks of several do: the launchers' own meeting place
START_SECONDS = 300.0
FAILED = "failed"  # why, where a rank has found that going on makes no sense
GLOOS_THREAD, LOWEST = "gloo_tcp_loop", 19
SMALL = 10_000  # numbers that are not worth compressing
MOST_SHARING = (
    16  # ranks of one machine; each reads what all have written, and beyond that gloo's ring should read less
)


class Ranks(Reduction, Protocol):
    """What algorithms ask of the others, and who we are among them."""

    index: int

    def count(self, more: int) -> int:
        """Add to a number that all ranks share; return it. Nobody waits."""


class Alone:
    """One process: there is nobody to add up with."""

    index, size = 0, 1

    def sum(self, values: Tensor) -> None:
        pass

    def total(self, rows: Tensor) -> Tensor:
        return rows.sum(0)

    def mean(self, values: Tensor, wide: bool = False) -> None:
        pass

    def count(self, more: int) -> int:
        return 0


class Together:
    """The ranks that torch's launcher has started, over gloo, which goes from rank to rank. Those of one machine add up
    in memory that they share; where there are several machines, the first rank of each talks to the others for it. A
    rank that does not answer in time is lost."""

    def __init__(self, phases: Phases, timeout: float, compress: bool = False) -> None:
        """`compress`: send large tensors in half precision."""
        self.index, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._phases, self._timeout, self._compress = phases, timeout, compress
        self._exchanges: list[float] = []
        self._shared_sums: dict[tuple[int, torch.dtype], SharedSum | None] = {}  # by length and type
        # The first to arrive waits for the others to have imported everything; after that, nobody is late.
        with self._peers():
            self._store = _store(self.size)
            dist.init_process_group(
                "gloo",
                store=self._store,
                rank=self.index,
                world_size=self.size,
                timeout=timedelta(seconds=START_SECONDS),
            )
            dist.barrier()
            patience = timedelta(seconds=timeout)
            self._group = dist.new_group(timeout=patience)
            self._here, self._firsts = self._by_machine(patience)
        _calm_gloo()

    def __enter__(self) -> Together:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, TrainingFailed):
            self._store.set(FAILED, str(error))  # before the others notice that we are gone
        dist.destroy_process_group()

    def _by_machine(self, patience: timedelta) -> tuple[Any, Any]:
        """The ranks that share memory with this one, and the first ones of all machines, where there are several; None
        where there is nobody to share with. Ranks are numbered machine by machine."""
        each, *others = set(self.share(int(os.environ.get("LOCAL_WORLD_SIZE", 1))))
        if others or each == 1 or not sys.platform.startswith("linux"):  # which has memory without a name
            return None, None
        if each == self.size:
            return (self._group if each <= MOST_SHARING else None), None
        machines = [list(range(first, first + each)) for first in range(0, self.size, each)]
        groups = [dist.new_group(machine, timeout=patience) for machine in machines]
        return groups[self.index // each], dist.new_group([machine[0] for machine in machines], timeout=patience)

    def sum(self, values: Tensor) -> None:
        self._add_up(values, lambda total, group: dist.all_reduce(total, group=group))

    def _add_up(self, values: Tensor, over_network: Callable[[Tensor, Any], Any], share: bool = True) -> None:
        begin = perf_counter()
        with self._phases.during("synchronise"), self._peers():
            shared = self._shared_sum(values) if share else None
            if shared:
                shared.add_up(values, (lambda total: over_network(total, self._firsts)) if self._firsts else None)
            else:
                over_network(values, self._group)
        self._exchanges.append(perf_counter() - begin)

    def total(self, rows: Tensor) -> Tensor:
        """To add up zeros changes no bit, in whatever order."""
        everybodys = torch.zeros(self.size, *rows.shape, dtype=rows.dtype)
        everybodys[self.index] = rows
        self.sum(everybodys)
        return everybodys.flatten(0, 1).sum(0)

    def _shared_sum(self, values: Tensor) -> SharedSum | None:
        """None: they go through gloo."""
        kind = values.numel(), values.dtype
        if self._here is None:
            return None
        if kind not in self._shared_sums:
            self._shared_sums[kind] = make_shared_sum(*kind, self._here, self._group, self._timeout)
        return self._shared_sums[kind]

    def mean(self, values: Tensor, wide: bool = False) -> None:
        if self._compress and values.dtype == torch.float32 and values.numel() > SMALL:
            self._add_up(
                values,
                lambda total, group: self._mean_in_half(total, group, wide),
                share=self._firsts is not None,  # on one machine, who asks for half precision wants to see what it does
            )
            return
        self.sum(values)
        values /= self.size

    def _mean_in_half(self, values: Tensor, group: Any, wide: bool) -> None:
        """Divided before the sum, which then cannot leave the range of half precision. Where small values would become
        nothing, as the squares that Adam divides by, the other half precision has the range of the whole."""
        half = (values / self.size).to(torch.bfloat16 if wide else torch.float16)
        dist.all_reduce(half, group=group)
        values.copy_(half)

    def count(self, more: int) -> int:
        with self._peers():
            return int(self._store.add("count", more))

    def take_exchanges(self) -> list[float]:
        """Seconds of every exchange since the last take. The last rank to arrive does not wait, so the shortest time
        of an exchange over all ranks is what it took."""
        taken, self._exchanges = self._exchanges, []
        return taken

    def tell(self, *numbers: float) -> None:
        """From rank 0 to all others."""
        self._broadcast(torch.tensor(numbers, dtype=torch.float64))

    def told(self, count: int) -> list[float]:
        numbers = torch.empty(count, dtype=torch.float64)
        self._broadcast(numbers)
        heard: list[float] = numbers.tolist()
        return heard

    def _broadcast(self, numbers: Tensor) -> None:
        with self._phases.during("wait"), self._peers():
            for group in reversed(self._levels()):
                dist.broadcast(numbers, group_src=0, group=group)

    def gather(self, thing: Any) -> list[Any]:
        """To rank 0, in the order of ranks; the others get nothing."""
        things = [thing]
        with self._phases.during("wait"), self._peers():
            for group in self._levels():
                of_all: list[Any] | None = [None] * dist.get_world_size(group) if dist.get_rank(group) == 0 else None
                dist.gather_object(things, of_all, group_dst=0, group=group)
                things = [one for theirs in of_all or [] for one in theirs]
        return things

    def _levels(self) -> list[Any]:
        """The groups that this rank is in, on the way from it to rank 0."""
        if self.size == 1:
            return []
        if self._firsts is None:
            return [self._group]
        return [self._here, self._firsts] if dist.get_rank(self._here) == 0 else [self._here]

    def share(self, thing: Any) -> list[Any]:
        """Everybody's, in the order of ranks, for everybody."""
        things: list[Any] = [None] * self.size
        with self._phases.during("wait"), self._peers():
            dist.all_gather_object(things, thing, group=self._group)
        return things

    @contextmanager
    def _peers(self) -> Iterator[None]:
        """Gloo's complaints about others are no bugs of ours."""
        try:
            yield
        except (RuntimeError, dist.DistError) as error:
            reason = str(error).strip().splitlines()[0]
            # Whoever fails closes its connections. Where one is silent, the store may be as well.
            if CLOSED in reason and self._store.check([FAILED]):
                raise TrainingFailed(self._store.get(FAILED).decode()) from error
            raise PeerLost(reason) from error


def _calm_gloo() -> None:
    """Where others have sent what this rank does not expect yet, because it is late, gloo's thread asks the kernel for
    it again and again, and would take half of the core that the late rank needs. It gets what is left over."""
    for thread in Path("/proc/self/task").glob("*"):
        with suppress(OSError):  # some thread has just ended
            if (thread / "comm").read_text().strip() == GLOOS_THREAD:
                os.setpriority(os.PRIO_PROCESS, int(thread.name), LOWEST)


def _store(size: int) -> Any:
    """What belongs to an earlier start of the ranks is not found again."""
    restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
    if STORE_FILE in os.environ:
        store = dist.FileStore(f"{os.environ[STORE_FILE]}.{restart}", size)  # type: ignore[attr-defined]
        store.set_timeout(timedelta(seconds=START_SECONDS))
        return store
    # Our launchers agree on a new port at every start. Nobody listens there, but it names the start. Those of torchrun
    # keep theirs, but count. Ours do too, each its own: a node that has come back has seen fewer starts.
    name = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    start = name if STORE_HOST in os.environ else f"{name}/{restart}/{size}"
    return dist.PrefixStore(f"ranks/{start}", meeting_store())  # type: ignore[attr-defined]


def meeting_store() -> Any:
    """The launchers' own: ours at an address that we chose, torchrun's where it says."""
    torchruns = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    host, _, port = os.environ.get(STORE_HOST, torchruns).rpartition(":")
    nobody_listens = STORE_HOST not in os.environ and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    return dist.TCPStore(  # type: ignore[attr-defined]
        host,
        int(port),
        is_master=nobody_listens and os.environ["RANK"] == "0",
        timeout=timedelta(seconds=START_SECONDS),
        wait_for_workers=False,
        multi_tenant=True,
    )
