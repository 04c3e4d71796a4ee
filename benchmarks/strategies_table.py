"""From the measurements of strategies.py to a document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

TEMPLATE = """# What travels between hosts, and what it costs

`{command}`, {date}; {machine}.
PPO, {workload}; CoinRun easy, {levels} levels.
Two hosts (network namespaces) with one worker each, where nothing else is said.
Raw numbers: [cluster_strategies.json](cluster_strategies.json).

{table}

- MB per update: what one host sends, by the counters of its interface, over the fast network.
- FPS: from the end of the first update over the next {updates}. Milliseconds are the round trip, as `ping` shows it
  (0: a pair of veth devices; else a relay between two TAP devices); a bandwidth is that of each direction (tc tbf).
  {missing}
- Both hosts, and the relay, share the cores of one machine: hosts of their own would have more of them for the network,
  and four workers take turns.
- Reward: {reward}
"""


def report(facts: dict[str, Any], strategies: Iterable[str], networks: Iterable[str]) -> str:
    here, workload = facts["machine"], facts["workload"]
    tried = {one["network"] for one in facts["measured"]}
    missing = [name for name in networks if name not in tried]
    networks = [name for name in networks if name in tried]
    return TEMPLATE.format(
        command=facts["command"],
        date=facts["ended"][:10],
        machine=f"{here['cpu']}, {here['cores']} cores, {here['system']}, Python {here['python']}",
        workload=f"{workload['arch']}, {workload['n_envs']} environments × {workload['n_steps']} steps, "
        f"batch {workload['batch_size']}, {workload['n_epochs']} epochs",
        levels=workload["num_levels"],
        table="\n".join(_table(facts, strategies, networks)),
        updates=_updates(facts["measured"], networks),
        missing=f"Not measured yet: {', '.join(missing)}." if missing else "All networks were measured.",
        reward=_reward(facts),
    )


def _find(facts: dict[str, Any], strategy: str, network: str) -> dict[str, Any]:
    """The measurement; nothing where there is none."""
    seed = facts["workload"]["seed"]
    for one in facts["measured"]:
        if (one["strategy"], one["network"], one["seed"]) == (strategy, network, seed):
            found: dict[str, Any] = one
            return found
    return {}


def _table(facts: dict[str, Any], strategies: Iterable[str], networks: list[str]) -> list[str]:
    fast = networks[0]
    lines = [
        f"| `cluster.sync` | MB per update | {' | '.join(f'FPS, {name}' for name in networks)} | reward |",
        "| --- " * (len(networks) + 3) + "|",
    ]
    for strategy in strategies:
        measured = [_find(facts, strategy, network) for network in networks]
        cells = [f"{one['fps']:,.0f}" if one else "" for one in measured]
        first = _find(facts, strategy, fast)
        megabytes = f"{first['bytes_per_update'] / 1e6:.2f}" if first else ""
        reward = f"{first['reward']:.2f} ± {first['reward_error']:.2f}" if "reward" in first else ""
        lines.append(f"| {strategy} | {megabytes} | {' | '.join(cells)} | {reward} |")
    return lines


def _updates(measured: list[dict[str, Any]], networks: list[str]) -> str:
    """Where the fast network's runs are longer, both."""
    fast = {str(one["updates"]) for one in measured if one["network"] == networks[0]}
    slow = {str(one["updates"]) for one in measured if one["network"] != networks[0]}
    if not slow or slow == fast:
        return ", ".join(sorted(fast))
    return f"{', '.join(sorted(slow))} ({networks[0]}: {', '.join(sorted(fast))})"


def _reward(facts: dict[str, Any]) -> str:
    known = [one for one in facts["measured"] if "reward" in one]
    if not known:
        return "not measured."
    text = (
        f"of the agent after {known[0]['steps']:,} steps, on the levels it knows, ± the standard error of the mean "
        "over the episodes."
    )
    first = known[0]["strategy"]
    seeds = [f"{one['reward']:.2f} (seed {one['seed']})" for one in known if one["strategy"] == first]
    return f"{text}\n  What other seeds make of it: {first} came to {', '.join(seeds)}." if len(seeds) > 1 else text
