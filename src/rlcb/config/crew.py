"""How many processes collect, over all nodes, and how many environments each of them has."""

from __future__ import annotations

from rlcb.config.tree import MAX_ENVS, Config


def with_crew(config: Config, given: set[str], cores: int) -> tuple[Config, list[str]]:
    """The configuration with the numbers of parallel mode settled, and what is wrong with them.

    `given` are the settings on the command line: `--num-envs` there is a total and outdoes a file's number per worker.
    """
    if config.mode == "sequential":
        return config, []
    one, other = ("actor", "worker") if config.algo == "impala" else ("worker", "actor")
    block = config.parallel.model_dump()
    number, each = block[f"num_{one}s"], block[f"num_envs_per_{one}"]
    nodes = config.num_nodes
    if config.mode == "cluster" and number is None:
        number = config.cluster.num_workers
    foreign = f"parallel.num_{other}s" in given and f"parallel.num_{one}s" not in given
    if (number is None or foreign) and block[f"num_{other}s"] is not None:
        return config, [
            f"parallel.num_{other}s: {block[f'num_{other}s']}, but {config.algo.upper()} collects with {one}s; "
            f"use parallel.num_{one}s"
        ]
    total = config.env.num_envs
    if each is not None and not ("env.num_envs" in given and f"parallel.num_envs_per_{one}" not in given):
        number = number or max(1, cores)
        total = number * each
    elif number is None:
        number = max(k for k in range(1, max(1, cores) + 1) if total % k == 0)
    problems = []
    if number % nodes:
        problems.append(
            f"cluster.num_workers: {number} {one}s cannot be divided by {nodes} nodes; use a multiple of that"
        )
    if total > MAX_ENVS:
        problems.append(f"parallel.num_envs_per_{one}: {total} environments in all are too many; at most {MAX_ENVS}")
    elif number > total:
        problems.append(
            f"parallel.num_{one}s: {number}, but there are {total} environments; use at most one {one} for each"
        )
    elif total % number:
        problems.append(
            f"env.num_envs: {total} environments cannot be divided by {number} {one}s; "
            f"use {total - total % number} or {total - total % number + number}"
        )
    if problems:
        return config, problems
    settled = {f"num_{one}s": number, f"num_envs_per_{one}": total // number}
    return (
        config.model_copy(
            update={
                "env": config.env.model_copy(update={"num_envs": total}),
                "parallel": config.parallel.model_copy(update=settled),
            }
        ),
        [],
    )
