"""Where the time of a gradient and of an acting pass goes, by operation, with our kernels and with torch's, beside what
the cores can multiply at most.

`make profile`: one thread, nothing else running.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product

from rlcb.cpu.allocator import keep_freed_memory
from rlcb.cpu.threads import apply_threads, prepare_threads
from rlcb.cpu.timing import seconds_per_call

SECONDS = 2.0
TOP = 8
CALLS = 5
TOUCHED = 2 * 2**30  # bytes


def main() -> None:
    keep_freed_memory()
    prepare_threads(1)
    import torch

    from rlcb.kernels import weights_held
    from rlcb.kernels.library import CHOICE, TORCH, kernels
    from rlcb.policy import Policy
    from rlcb.training.flat import FlatParameters

    apply_threads(1)
    torch.ones(TOUCHED // 4)  # freed at once, and kept: room for what recording needs
    peak = _gemm_peak()
    print(f"Matrix product, 2048 x 2048, one thread: {peak:.0f} GFLOP/s")
    ours = kernels().name
    for (arch, batch), used in product((("nature", 512), ("impala", 256)), dict.fromkeys((ours, TORCH))):
        os.environ[CHOICE] = used
        kernels.cache_clear()
        policy = Policy(arch, (64, 64, 3), 15)
        FlatParameters(policy)
        obs = torch.randint(0, 255, (batch, 64, 64, 3), dtype=torch.uint8)
        actions, noise = torch.zeros(batch, dtype=torch.int64), torch.zeros(16, 15)

        def learn(policy: Policy = policy, obs: torch.Tensor = obs, actions: torch.Tensor = actions) -> None:
            log_probs, entropies, values = policy.evaluate_actions(obs, actions)
            (log_probs.mean() + entropies.mean() + values.square().mean()).backward()  # type: ignore[no-untyped-call]

        def act(policy: Policy = policy, obs: torch.Tensor = obs, noise: torch.Tensor = noise) -> None:
            policy.act(obs[:16], noise)

        _print_profile(f"{arch}, {used}: gradient of {batch}", learn, batch)
        with weights_held():
            _print_profile(f"{arch}, {used}: acting on 16", act, 16)


def _gemm_peak() -> float:
    import torch

    a, b, out = (torch.randn(2048, 2048) for _ in range(3))
    return 2 * 2048**3 / seconds_per_call(lambda: torch.mm(a, b, out=out), SECONDS) / 1e9


def _print_profile(name: str, call: Callable[[], object], samples: int) -> None:
    from torch.profiler import profile, schedule

    each = seconds_per_call(call, SECONDS) / samples
    # Recording needs memory too, which moves what is recorded to pages that were never touched: not the first calls,
    # and not beyond what was touched before.
    with profile(schedule=schedule(wait=0, warmup=CALLS, active=CALLS, repeat=1)) as recorded:
        for _ in range(2 * CALLS):
            call()
            recorded.step()
    events = sorted(recorded.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    print(f"\n{name}: {1e6 * each:.0f} µs per sample")
    for event in events[:TOP]:
        print(f"  {100 * event.self_cpu_time_total / total:5.1f}%  {event.key}")


if __name__ == "__main__":
    main()
