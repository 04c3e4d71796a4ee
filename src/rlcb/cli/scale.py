"""predict speed, efficiency and time on other numbers of nodes and cores, from costs measured here"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rlcb.cli.compare import picture_file
from rlcb.cli.parser import NO_LIMIT, Door, Parser, whole_numbers
from rlcb.cli.train import add_settings, overrides_of
from rlcb.errors import UserError

if TYPE_CHECKING:
    from rlcb.scale.costs import Costs
    from rlcb.scale.plan import Plan

# Where a run is, how many share it and how they talk is what this command varies.
VARIED = {"parallel", "cluster", "hardware", "logging"}
MOST_NODES = 1024


def add_flags(parser: Parser, door: Door) -> None:
    asked = parser.add_argument_group("cluster")
    asked.add_argument("--nodes", default="1,2,4,8,16", metavar="N,N,…", help="numbers of nodes (default: 1,2,4,8,16)")
    asked.add_argument("--cores-per-node", metavar="N", help="of every node (default: as many as here)")
    asked.add_argument(
        "--latency", default="0.1", metavar="MS", help="milliseconds between nodes, one way (default: 0.1)"
    )
    asked.add_argument("--bandwidth", default="10000", metavar="MBITS", help="of a node, Mbit/s (default: 10000)")
    asked.add_argument(
        "--workers-per-node", metavar="N", help="processes (default: one per core, as far as environments divide)"
    )
    asked.add_argument(
        "--num-envs-per-worker",
        metavar="N",
        help="environments and batches grow with the workers (default: the training stays the same, --num-envs in all)",
    )
    asked.add_argument(
        "--sync", default="all", metavar="allreduce|accumulate|average|all", help="what travels (default: all)"
    )
    asked.add_argument("--compression", dest="cluster.compression", metavar="none|fp16", help="of what travels")
    asked.add_argument("--average-every", dest="cluster.average_every", metavar="N", help="updates (default: 4)")
    asked.add_argument("--costs", metavar="FILE", help="JSON of an earlier prediction: use its costs, measure nothing")
    asked.add_argument(
        "--output", default="scale.png", metavar="FILE", help="picture (default: scale.png); JSON beside it"
    )
    add_settings(parser, Door(fixed={"mode": "cluster"}), VARIED)


def run(args: argparse.Namespace, door: Door) -> int:
    from rlcb.cpu.machine import physical_cores
    from rlcb.scale.plan import SYNCS

    numbers, problems = whole_numbers(
        args, dict.fromkeys(("cores_per_node", "workers_per_node", "num_envs_per_worker"), (1, NO_LIMIT))
    )
    problems = [*args.problems, *problems]
    nodes, latency, bandwidth = _network(args, problems)
    if args.sync not in (*SYNCS, "all"):
        problems.append(f"--sync {args.sync} is not a choice; use {', '.join(SYNCS)} or all")
    cores = numbers.get("cores_per_node", physical_cores())
    plan, costs, file = None, None, Path(args.output)
    try:
        file = picture_file(args.output)
    except UserError as error:
        problems += error.problems
    try:
        plan = _plan(args, nodes, cores, numbers)
        costs = _costs(args.costs, plan)
    except UserError as error:
        problems += error.problems
    if problems or plan is None:
        raise UserError(problems)

    from rlcb.runs.files import write_json
    from rlcb.scale.model import Machines, predict
    from rlcb.scale.table import as_tree, described, table, title

    costs = costs or _measured(plan, cores)
    machines = Machines(cores, latency, bandwidth)
    one_core = predict(plan.one_core, costs, machines)
    predictions = [predict(config, costs, machines) for config in plan.runs]
    print(f"{described(costs)}\n\n{title(plan.one_core)}; {bandwidth:g} Mbit/s, {latency:g} ms one way")
    print(table(one_core, predictions))
    print("".join(f"{remark}\n" for remark in plan.remarks), end="", flush=True)

    from rlcb.scale.picture import draw

    draw(one_core, predictions, file)
    write_json(file.with_suffix(".json"), as_tree(costs, one_core, predictions))
    print(f"\nPicture: {file}\nNumbers: {file.with_suffix('.json')}")
    return 0


def _network(args: argparse.Namespace, problems: list[str]) -> tuple[list[int], float, float]:
    nodes = [int(text) for text in args.nodes.split(",") if text.isdecimal() and 1 <= int(text) <= MOST_NODES]
    if len(nodes) != len(args.nodes.split(",")):
        problems.append(f"--nodes {args.nodes} are not whole numbers from 1 to {MOST_NODES}; for example --nodes 1,2,4")
    numbers = []
    for name, least in (("latency", 0.0), ("bandwidth", 1e-3)):
        text = getattr(args, name)
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not least <= number < float("inf"):
            usual = {"latency": "0.1", "bandwidth": "1000"}[name]
            problems.append(f"--{name} {text} is not a number from {least:g} on; for example --{name} {usual}")
        numbers.append(number)
    return sorted(set(nodes)), numbers[0], numbers[1]


def _plan(args: argparse.Namespace, nodes: list[int], cores: int, numbers: dict[str, int]) -> Plan:
    from rlcb.cpu.machine import physical_cores
    from rlcb.scale.plan import SYNCS, Asked, make_plan

    asked = Asked(
        args.config,
        overrides_of(args),
        nodes or [1],
        cores,
        numbers.get("workers_per_node"),
        numbers.get("num_envs_per_worker"),
        (args.sync,) if args.sync in SYNCS else SYNCS,
    )
    return make_plan(asked, physical_cores())


def _costs(file: str | None, plan: Plan) -> Costs | None:
    from rlcb.scale.costs import read_costs

    return None if file is None else read_costs(Path(file), plan.one_core)


def _measured(plan: Plan, cores: int) -> Costs:
    from rlcb.scale.measure import measure
    from rlcb.scale.plan import sizes_of
    from rlcb.screen import Screen

    n_envs, crowded = sizes_of(plan, cores)
    screen = Screen("Measuring", leave=False)
    if not screen.live:
        screen.say("Measuring what playing, learning and exchanging cost here …")
    try:
        return measure(plan.one_core, n_envs, crowded, screen)
    finally:
        screen.close()
