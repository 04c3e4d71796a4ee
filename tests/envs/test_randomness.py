from __future__ import annotations

import torch

from rlcb.envs.randomness import EVALUATION, EnvRandomness


def test_numbers_belong_to_environments_and_steps() -> None:
    whole = EnvRandomness(7, range(6)).gumbel(0, 40, 15)
    assert torch.equal(EnvRandomness(7, range(2, 5)).gumbel(0, 40, 15), whole[:, 2:5])
    assert torch.equal(EnvRandomness(7, range(6)).gumbel(25, 15, 15), whole[25:])


def test_seeds_environments_steps_and_uses_differ() -> None:
    noise = EnvRandomness(7, [0, 1]).gumbel(0, 3, 15)
    others = [
        EnvRandomness(8, [0]).gumbel(0, 3, 15)[:, 0],
        EnvRandomness(7, [0], EVALUATION).gumbel(0, 3, 15)[:, 0],
        noise[:, 1],
    ]
    for other in others:
        assert not torch.isclose(noise[:, 0], other).any()
    assert len(set(noise.flatten().tolist())) == noise.numel()


def test_noise_is_gumbel() -> None:
    noise = EnvRandomness(0, range(20)).gumbel(0, 1000, 15).double()
    assert abs(noise.mean() - 0.5772) < 0.01
    assert abs(noise.var() - torch.pi**2 / 6) < 0.02


def test_orders_are_permutations_of_their_own() -> None:
    orders = EnvRandomness(3, range(4)).order(update=5, epoch=1, n_steps=32)
    assert torch.equal(orders.sort(dim=0).values, torch.arange(32).unsqueeze(1).expand(32, 4))
    assert torch.equal(EnvRandomness(3, [2]).order(5, 1, 32)[:, 0], orders[:, 2])
    for other in (EnvRandomness(3, range(4)).order(6, 1, 32), EnvRandomness(3, range(4)).order(5, 2, 32)):
        assert not torch.equal(other, orders)
    assert not torch.equal(orders[:, 0], orders[:, 1])
