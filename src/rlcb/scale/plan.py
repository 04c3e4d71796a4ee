"""Which runs to predict: the same training on other numbers of nodes, with other ways to exchange."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlcb.config import Config, Override, load_config
from rlcb.config.tree import ALGORITHM_LABELS
from rlcb.errors import UserError

SYNCS = ("allreduce", "accumulate", "average")
ONLY_SYNC = {"impala": "allreduce", "a3c": "average"}  # algorithms that have no choice


@dataclass(frozen=True)
class Asked:
    file: str | Path | None  # of settings
    overrides: list[Override]
    nodes: list[int]
    cores: int  # of every node
    workers_per_node: int | None = None  # as many as cores, where environments divide
    envs_per_worker: int | None = None  # the training grows with the workers; None: it stays the same
    syncs: tuple[str, ...] = SYNCS


@dataclass(frozen=True)
class Plan:
    one_core: Config  # what everything is held against
    runs: list[Config]
    remarks: list[str]  # what was asked for and cannot be


def make_plan(asked: Asked, cores_here: int) -> Plan:
    """Raises a UserError that lists every problem at once."""
    base = load_config(asked.file, asked.overrides, cores=cores_here)
    problems = _problems(asked, base)
    if problems:
        raise UserError(problems)
    syncs = [ONLY_SYNC[base.algo]] if base.algo in ONLY_SYNC else list(asked.syncs)
    runs, remarks = [], []
    for nodes in asked.nodes:
        workers = _workers(asked, base, nodes)
        if workers is None:
            remarks.append(
                f"{nodes} nodes: {base.num_envs} environments cannot be divided among them; "
                f"use --num-envs {nodes * -(-base.num_envs // nodes)}"
            )
            continue
        runs += [_run(asked, base, nodes, workers, sync) for sync in syncs]
    if not runs:
        raise UserError(remarks)
    alone = _settings(asked, base, asked.envs_per_worker or base.num_envs, {"mode": "sequential"})
    return Plan(alone, runs, remarks)


def _problems(asked: Asked, base: Config) -> list[str]:
    problems = []
    only, label = ONLY_SYNC.get(base.algo), ALGORITHM_LABELS[base.algo]
    if only and asked.syncs not in (SYNCS, (only,)):
        problems.append(f"--sync {','.join(asked.syncs)}: {label} knows no other way than {only}; leave it out")
    per_node = asked.workers_per_node
    if per_node and not asked.envs_per_worker:
        for nodes in asked.nodes:
            if base.num_envs % (nodes * per_node):
                problems.append(
                    f"--workers-per-node {per_node}: {base.num_envs} environments cannot be divided by {nodes} × "
                    f"{per_node} workers; use --num-envs {nodes * per_node * -(-base.num_envs // (nodes * per_node))}"
                )
    return problems


def _workers(asked: Asked, base: Config, nodes: int) -> int | None:
    """Over all nodes; one for each core, as far as they divide the environments."""
    most = asked.workers_per_node or asked.cores
    if asked.envs_per_worker or asked.workers_per_node:
        return nodes * most
    fitting = [nodes * each for each in range(1, most + 1) if base.num_envs % (nodes * each) == 0]
    return fitting[-1] if fitting else None


def _run(asked: Asked, base: Config, nodes: int, workers: int, sync: str) -> Config:
    kind = "actors" if base.algo == "impala" else "workers"
    total = workers * asked.envs_per_worker if asked.envs_per_worker else base.num_envs
    cluster = {"mode": "cluster", "cluster.nodes": nodes, "cluster.sync": sync, f"parallel.num_{kind}": workers}
    return _settings(asked, base, total, cluster)


def _settings(asked: Asked, base: Config, num_envs: int, values: dict[str, object]) -> Config:
    """A batch takes as many steps of every environment as it did, however many there are."""
    values = {**values, "env.num_envs": num_envs}
    if base.training.batch_size is not None:
        values["training.batch_size"] = num_envs * (base.training.batch_size // base.num_envs)
    fixed = [Override(path, value, path) for path, value in values.items()]
    return load_config(asked.file, [*asked.overrides, *fixed])


def sizes_of(plan: Plan, cores: int) -> tuple[set[int], bool]:
    """Numbers of environments that a process has, or learns from, in one of the runs; and whether any of them has more
    processes than cores."""
    sizes, crowded = {plan.one_core.num_envs}, False
    for run in plan.runs:
        crew = run.crew
        assert crew is not None
        sizes.add(crew.envs_each)
        processes = crew.number // run.num_nodes
        if run.algo == "impala":
            sizes.add(crew.envs_each * processes)
            processes += 1  # the learner
        crowded |= processes > cores
    return sizes, crowded
