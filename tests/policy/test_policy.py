from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from rlcb.policy import Policy

SHAPE = (64, 64, 3)


def pictures(n: int) -> torch.Tensor:
    return torch.randint(0, 256, (n, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_nature_is_the_network_written_out() -> None:
    policy = Policy("nature", SHAPE, 15, seed=1)
    convolutions = [module for module in policy.modules() if isinstance(module, nn.Conv2d)]
    x = pictures(5).permute(0, 3, 1, 2).contiguous().float() / 255
    for convolution, stride in zip(convolutions, (4, 2, 1), strict=True):
        x = F.conv2d(x, convolution.weight, convolution.bias, stride).relu()
    linear = list(policy.trunk.children())[-1]
    assert isinstance(linear, nn.Linear)
    features = F.linear(x.permute(0, 2, 3, 1).flatten(1), linear.weight, linear.bias).relu()
    log_probs, values = policy(pictures(5))
    torch.testing.assert_close(log_probs, policy.actor(features).log_softmax(1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(values, policy.critic(features)[:, 0], rtol=1e-4, atol=1e-5)
    assert features.shape == (5, 512)


def test_impala_is_the_network_written_out() -> None:
    policy = Policy("impala", SHAPE, 15, seed=1)
    convolutions = iter([module for module in policy.modules() if isinstance(module, nn.Conv2d)])

    def convolve(x: torch.Tensor) -> torch.Tensor:
        convolution = next(convolutions)
        return F.conv2d(x, convolution.weight, convolution.bias, padding=1)

    x = pictures(3).permute(0, 3, 1, 2).contiguous().float() / 255
    for channels in (16, 32, 32):
        x = F.max_pool2d(convolve(x), 3, 2, 1)
        assert x.shape[1] == channels
        for _ in range(2):
            x = x + convolve(convolve(x.relu()).relu())
    linear = list(policy.trunk.children())[-1]
    assert isinstance(linear, nn.Linear)
    features = F.linear(x.relu().permute(0, 2, 3, 1).flatten(1), linear.weight, linear.bias).relu()
    torch.testing.assert_close(policy(pictures(3))[1], policy.critic(features)[:, 0], rtol=1e-4, atol=1e-5)
    assert features.shape == (3, 256)


@pytest.mark.parametrize("arch", ["nature", "impala"])
def test_weights_start_orthogonal_and_depend_on_the_seed_alone(arch: str) -> None:
    torch.manual_seed(1)
    policy = Policy(arch, SHAPE, 15, seed=4)
    torch.manual_seed(2)
    same, other = Policy(arch, SHAPE, 15, seed=4), Policy(arch, SHAPE, 15, seed=5)
    for module in policy.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            gain = 0.01 if module is policy.actor else 1.0 if module is policy.critic else math.sqrt(2)
            rows = module.weight.flatten(1)
            rows = rows if rows.shape[0] <= rows.shape[1] else rows.T
            torch.testing.assert_close(rows @ rows.T, gain**2 * torch.eye(len(rows)), rtol=0, atol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), same.parameters(), strict=True))
    assert not torch.equal(policy.actor.weight, other.actor.weight)


def test_actions_follow_the_probabilities() -> None:
    policy = Policy("nature", SHAPE, 3, seed=0)
    with torch.no_grad():
        policy.actor.bias.copy_(torch.tensor([0.7, 0.2, 0.1]).log())
        policy.actor.weight.zero_()
    n = 4000
    noise = -(-torch.rand(n, 3, generator=torch.Generator().manual_seed(0)).log()).log()
    one = pictures(1).expand(n, *SHAPE)
    actions, log_probs, _ = policy.act(one, noise)
    shares = torch.bincount(actions, minlength=3) / n
    torch.testing.assert_close(shares, torch.tensor([0.7, 0.2, 0.1]), rtol=0, atol=0.03)
    torch.testing.assert_close(log_probs.exp(), torch.tensor([0.7, 0.2, 0.1])[actions])
    greedy, *_ = policy.act(one[:5], torch.zeros(5, 3))
    assert greedy.tolist() == [0] * 5


def test_acting_and_evaluating_agree() -> None:
    policy = Policy("nature", SHAPE, 15, seed=0)
    actions, log_probs, values = policy.act(pictures(6), torch.zeros(6, 15))
    again, entropies, values_again = policy.evaluate_actions(pictures(6), actions.clone())
    torch.testing.assert_close(log_probs, again)
    torch.testing.assert_close(values, values_again)
    assert torch.all((entropies > 0) & (entropies <= math.log(15) + 1e-5))


@pytest.mark.parametrize("arch", ["nature", "impala"])
def test_first_weights_do_not_depend_on_threads(arch: str) -> None:
    torch.set_num_threads(2)
    with_two = Policy(arch, (64, 64, 3), 15).state_dict()
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    with_one = Policy(arch, (64, 64, 3), 15).state_dict()
    assert all(torch.equal(with_one[name], weights) for name, weights in with_two.items())
