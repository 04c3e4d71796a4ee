"""Processes that work for this one. A member that dies or freezes is replaced, and the others do not notice."""

from __future__ import annotations

import pickle
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.util import Finalize
from time import monotonic
from typing import Any

import torch.multiprocessing as multiprocessing

from rlcb.cpu.threads import apply_threads
from rlcb.errors import TrainingFailed
from rlcb.training import server
from rlcb.training.lifeline import live_with_parent
from rlcb.training.signals import HANDLED

START_SECONDS = 300.0  # for a member to import everything and to build its environments
MAX_FAILURES = 3
LISTEN_SECONDS = 0.5
PARTING_SECONDS = 2.0


@dataclass
class Member:
    process: Any
    pipe: Any
    life: int  # how many were in this place before
    heard: float  # by the crew's clock
    owed: int = 1  # answers; the first says that it is ready
    ready: bool = False
    answered: bool = False
    failures: int = 0  # of those before, in a row, who did nothing but end or keep us waiting


class Crew:
    """Each member has a pipe of its own: there is no queue whose lock a dying process could keep.

    `work(pipe, *arguments(index, life))` runs in the member. It sends one message when it is ready, and then one for
    every message that it gets. None tells it to end.
    """

    def __init__(
        self,
        number: int,
        work: Callable[..., None],
        arguments: Callable[[int, int], tuple[Any, ...]],
        name: Callable[[int], str],
        timeout: float,
    ) -> None:
        self._work, self._arguments, self._name, self._timeout = work, arguments, name, timeout
        self._processes = multiprocessing.get_context("forkserver")
        server.start()
        self.replaced = 0
        self._early: tuple[list[tuple[int, Any]], list[int]] = ([], [])
        self._clock, self._looked = 0.0, monotonic()
        self.members = [self._start(index, 0) for index in range(number)]
        # Python would wait for ever for members that nobody has closed: they do not hear its signal.
        self._at_exit = Finalize(None, self._end_all, exitpriority=10)

    def _start(self, index: int, life: int, failures: int = 0) -> Member:
        ours, theirs = self._processes.Pipe()
        arguments = (self._name(index), self._work, theirs, *self._arguments(index, life))
        process = self._processes.Process(target=_live, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return Member(process, ours, life, self._time(), failures=failures)

    def _time(self) -> float:
        """What passes while we do not move (Ctrl-Z, a suspended job) does not count as others' silence."""
        before, self._looked = self._looked, monotonic()
        self._clock += min(self._looked - before, self._timeout / 2)
        return self._clock

    def send(self, index: int, message: Any) -> None:
        """A member that is gone by now is found out by `receive`."""
        member = self.members[index]
        if not member.owed:
            member.heard = self._time()
        member.owed += 1
        with suppress(OSError):
            send(member.pipe, message)

    def receive(self, wait: bool) -> tuple[list[tuple[int, Any]], list[int]]:
        """Messages by member, and the places that have someone new, who starts with nothing to do."""
        messages, lost = self._early
        self._early = ([], [])
        self._listen(0.0 if messages or lost or not wait else LISTEN_SECONDS, messages, lost)
        return messages, lost

    def wait_until_ready(self) -> None:
        """What is said meanwhile is kept for `receive`."""
        while not all(member.ready for member in self.members):
            self._listen(LISTEN_SECONDS, *self._early)

    def _listen(self, seconds: float, messages: list[tuple[int, Any]], replaced: list[int]) -> None:
        pipes = {member.pipe: index for index, member in enumerate(self.members)}
        lost = []
        for pipe in connection.wait(list(pipes), seconds):
            index = pipes[pipe]
            try:
                message = receive(self.members[index].pipe)
            except (EOFError, OSError):
                lost.append(index)
                continue
            if isinstance(message, TrainingFailed):
                raise message
            member = self.members[index]
            member.heard, member.owed = self._time(), member.owed - 1
            if member.ready:
                messages.append((index, message))
                member.answered, member.failures = True, 0
            member.ready = True
        lost += [index for index in pipes.values() if index not in lost and self._frozen(self.members[index])]
        for index in lost:
            self._replace(index)
        replaced += [index for index in lost if index not in replaced]  # once, whoever comes and goes

    def _frozen(self, member: Member) -> bool:
        limit = self._timeout if member.ready else START_SECONDS
        return member.owed > 0 and self._time() - member.heard > limit

    def _replace(self, index: int) -> None:
        member = self.members[index]
        slow = member.ready and self._frozen(member)
        failures = member.failures + (slow or not member.answered)
        how = f"did not answer within {self._timeout:.0f} seconds" if slow else "ended"
        self.replaced += 1
        if failures > MAX_FAILURES:
            how = how if slow else "ended before it had done anything"
            remedy = "; use a larger --timeout, or a smaller --n-steps" if slow else ""
            raise TrainingFailed(f"{self._name(index)} {how}, {failures} times in a row{remedy}")
        print(f"{self._name(index)} {how}; another takes its place", file=sys.stderr, flush=True)
        _end(member)
        self.members[index] = self._start(index, member.life + 1, failures)

    def close(self) -> None:
        for index in range(len(self.members)):
            self.send(index, None)
        for member in self.members:
            member.process.join(PARTING_SECONDS)
        self._at_exit()

    def _end_all(self) -> None:
        for member in self.members:
            _end(member)


def send(pipe: Any, message: Any) -> None:
    """By value. Torch would send tensors as shared memory, for which the reader must ask the writer back: one that is
    frozen by then never answers."""
    pipe.send_bytes(pickle.dumps(message))


def receive(pipe: Any) -> Any:
    return pickle.loads(pipe.recv_bytes())


def _end(member: Member) -> None:
    if member.process.is_alive():
        member.process.kill()  # works on stopped ones too
    member.process.join()
    member.process.close()
    member.pipe.close()


def _live(name: str, work: Callable[..., None], pipe: Any, *arguments: Any) -> None:
    live_with_parent(name)
    for number in HANDLED:
        signal.signal(number, signal.SIG_IGN)  # the parent gets them too, and decides
    apply_threads(1)
    try:
        work(pipe, *arguments)
    except TrainingFailed as failure:
        send(pipe, failure)
    except (EOFError, ConnectionError):
        pass  # the parent is gone
