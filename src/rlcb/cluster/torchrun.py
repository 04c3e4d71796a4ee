"""Processes that `torchrun` has started: each is a rank already, and how many there are is decided."""

from __future__ import annotations

import os

from rlcb.config import Override

ONE_PER_NODE = {"impala": "learner", "a3c": "coordinator"}


def under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def settings_of_torchrun(algo: str, mode: str, given: dict[str, Override]) -> tuple[list[Override], list[str]]:
    """What follows from how this process was started, and what does not fit to that. Without torchrun: nothing."""
    if not under_torchrun():
        return [], []
    world, each, nodes = (int(os.environ[name]) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"))
    if mode != "cluster":
        return [], [f"--mode {mode}: torchrun has started {world} processes; use --mode cluster, or leave out torchrun"]
    if algo in ONE_PER_NODE:
        if each != 1:
            return [], [f"--nproc-per-node {each}: {algo.upper()} has one {ONE_PER_NODE[algo]} per node; use 1"]
        return [Override("cluster.nodes", nodes, "torchrun")], []
    asked = given.get("parallel.num_workers")
    if asked is not None and str(asked.value) != str(world):
        return [], [f"--num-workers {asked.value}: torchrun has started {world} processes; leave it out"]
    return [Override("cluster.nodes", nodes, "torchrun"), Override("parallel.num_workers", world, "torchrun")], []
