from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlcb.algorithms import RECIPES, Rollout
from rlcb.algorithms.a2c import A2C
from rlcb.algorithms.impala import IMPALA, Unroll, Unrolls
from rlcb.algorithms.interface import Metrics
from rlcb.algorithms.metrics import explained_variance
from rlcb.algorithms.minibatches import StepMinibatches, Steps
from rlcb.algorithms.ppo import PPO
from rlcb.envs.randomness import EnvRandomness
from rlcb.training.ranks import Alone
from tests.conftest import tiny_config

STEPS = StepMinibatches(gamma=0.9, gae_lambda=0.8, n_epochs=2, per_epoch=2, normalize_advantage=False)


class Table(nn.Module):
    """A policy that is a table: the first pixel of the observation is the row."""

    def __init__(self, rows: int = 256, n_actions: int = 3) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(rows, n_actions))
        self.values = nn.Parameter(torch.zeros(rows))

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = obs[:, 0, 0, 0].long()
        log_probs = self.logits[rows].log_softmax(1)
        chosen = log_probs.gather(1, actions[:, None])[:, 0]
        return chosen, -(log_probs.exp() * log_probs).sum(1), self.values[rows]

    def value(self, obs: Tensor) -> Tensor:
        return self.values[obs[:, 0, 0, 0].long()].detach()


def rollout(steps: int = 8, envs: int = 4, seed: int = 0) -> Rollout:
    g = torch.Generator().manual_seed(seed)
    return Rollout(
        obs=torch.randint(0, 256, (steps + 1, envs, 1, 1, 1), dtype=torch.uint8, generator=g),
        actions=torch.randint(0, 3, (steps, envs), generator=g),
        rewards=torch.randn(steps, envs, generator=g),
        dones=torch.rand(steps, envs, generator=g) < 0.2,
        log_probs=-torch.rand(steps, envs, generator=g),
        values=torch.randn(steps + 1, envs, generator=g),
    )


def shuffle(epoch: int) -> Tensor:
    return EnvRandomness(0, range(4)).order(0, epoch, 8)


def ppo(**changes: Any) -> PPO:
    settings: dict[str, Any] = {
        "clip_range": 0.2,
        "clip_range_vf": None,
        "ent_coef": 0.01,
        "vf_coef": 0.5,
        "target_kl": None,
    }
    return PPO(STEPS, **{**settings, **changes})


def one_step(advantage: float, ratio: float, value: float = 0.0, old_value: float = 0.0) -> tuple[Table, Steps]:
    policy = Table()
    with torch.no_grad():
        policy.values.fill_(value)
    log_prob = torch.full((1,), 1 / 3).log()
    obs = torch.zeros(1, 1, 1, 1, dtype=torch.uint8)
    ones = torch.ones(1)
    batch = Steps(
        obs,
        torch.tensor([1]),
        log_prob - torch.tensor([ratio]).log(),
        old_value * ones,
        advantage * ones,
        2.0 * ones,
    )
    return policy, batch


@pytest.mark.parametrize(
    ("advantage", "ratio", "expected"),
    [(1.0, 1.0, -1.0), (1.0, 1.5, -1.2), (1.0, 0.5, -0.5), (-1.0, 1.5, 1.5), (-1.0, 0.5, 0.8)],
)
def test_the_clipped_surrogate(advantage: float, ratio: float, expected: float) -> None:
    _, metrics = ppo().loss(*one_step(advantage, ratio))
    assert metrics["policy_loss"].item() == pytest.approx(expected, abs=1e-5)
    assert metrics["clip_fraction"].item() == float(abs(ratio - 1) > 0.2)


def test_the_value_loss_and_its_clipping() -> None:
    policy, batch = one_step(1.0, 1.0, value=1.5, old_value=0.0)  # the return is 2
    assert ppo().loss(policy, batch)[1]["value_loss"].item() == pytest.approx(0.5 * 0.5**2)
    clipped = ppo(clip_range_vf=0.2).loss(policy, batch)[1]["value_loss"]  # may move to 0.2 only
    assert clipped.item() == pytest.approx(0.5 * 1.8**2)


def test_approx_kl_is_zero_without_change_and_positive_with() -> None:
    assert ppo().loss(*one_step(1.0, 1.0))[1]["approx_kl"].item() == pytest.approx(0, abs=1e-6)
    assert ppo().loss(*one_step(1.0, 1.3))[1]["approx_kl"].item() > 0.01


@pytest.mark.parametrize("algorithm", [ppo(), A2C(STEPS, ent_coef=0.0, vf_coef=0.5)])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_step_makes_good_actions_likelier_and_values_closer(algorithm: PPO | A2C, advantage: float) -> None:
    policy, batch = one_step(advantage, 1.0)
    loss, _ = algorithm.loss(policy, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    assert policy.logits.grad is not None
    assert policy.values.grad is not None
    assert float(-policy.logits.grad[0, 1]) * advantage > 0
    assert float(-policy.values.grad[0]) > 0  # the return is above the value


def test_entropy_is_rewarded() -> None:
    policy, batch = one_step(0.0, 1.0)
    with torch.no_grad():
        policy.logits[0] = torch.tensor([2.0, 0.0, 0.0])
    loss, _ = ppo(vf_coef=0.0, ent_coef=1.0).loss(policy, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    assert policy.logits.grad is not None
    assert float(-policy.logits.grad[0, 0]) < 0


def test_minibatches_are_stratified_and_complete() -> None:
    r = rollout()
    r.obs[:-1] = torch.arange(32).view(8, 4, 1, 1, 1)  # every step has a name
    batches = list(STEPS(r, shuffle, Alone()))
    assert len(batches) == 4  # 2 epochs of 2
    for batch in batches:
        names = batch.obs.flatten().long()
        assert torch.equal(torch.bincount(names % 4), torch.full((4,), 4))  # 4 steps of each environment
        assert torch.equal(batch.actions, r.actions.flatten()[names])
        assert torch.equal(batch.values, r.values[:-1].flatten()[names])
    for epoch in (batches[:2], batches[2:]):
        everything = torch.cat([batch.obs.flatten() for batch in epoch]).sort().values
        assert torch.equal(everything.long(), torch.arange(32))


def test_advantages_are_normalised_per_minibatch() -> None:
    batching = StepMinibatches(gamma=0.9, gae_lambda=0.8, n_epochs=1, per_epoch=2, normalize_advantage=True)
    for batch in batching(rollout(), shuffle, Alone()):
        assert float(batch.advantages.mean()) == pytest.approx(0, abs=1e-6)
        assert float(batch.advantages.std(correction=0)) == pytest.approx(1, abs=1e-4)


def test_a_rollout_that_was_cut_short_has_as_many_minibatches() -> None:
    r = rollout().first(7)
    r.obs[:-1] = torch.arange(28).view(7, 4, 1, 1, 1)
    batches = list(STEPS(r, lambda epoch: EnvRandomness(0, range(4)).order(0, epoch, 7), Alone()))
    assert [len(batch) for batch in batches] == [16, 12, 16, 12]
    for epoch in (batches[:2], batches[2:]):
        everything = torch.cat([batch.obs.flatten() for batch in epoch]).sort().values
        assert torch.equal(everything.long(), torch.arange(28))


def impala() -> IMPALA:
    unrolls = Unrolls(gamma=0.9, n_epochs=1, length=4)
    return IMPALA(unrolls, gae_lambda=1.0, clip_rho=1.0, clip_pg_rho=1.0, ent_coef=0.01, vf_coef=0.5)


def test_unrolls_cover_the_rollout_in_order() -> None:
    r = rollout()
    first, second = impala().minibatches(r, shuffle, Alone())
    assert torch.equal(torch.cat([first.actions, second.actions]), r.actions)
    assert torch.equal(first.obs[-1], second.obs[0])
    assert torch.equal(second.obs[-1], r.obs[-1])


def test_impala_on_its_own_data_is_the_policy_gradient() -> None:
    """Without lag: -log pi * (V-trace advantage), whose values come from the present critic."""
    policy, r = Table(), rollout()
    with torch.no_grad():
        policy.values.normal_()
        r.log_probs[:] = torch.full((8, 4), 1 / 3).log()
    batch = Unroll(r.obs, r.actions, r.log_probs, r.rewards, r.discounts(0.9))
    _, metrics = impala().loss(policy, batch)
    values = policy.values[r.obs[..., 0, 0, 0].long()].detach()
    returns = values.clone()
    for t in reversed(range(8)):
        returns[t] = r.rewards[t] + r.discounts(0.9)[t] * returns[t + 1]
    advantages = returns[:-1] - values[:-1]
    expected = -(torch.tensor(1 / 3).log() * advantages).mean()
    torch.testing.assert_close(metrics["policy_loss"], expected)
    torch.testing.assert_close(metrics["value_loss"], 0.5 * advantages.square().mean())


@pytest.mark.parametrize("algo", RECIPES)
@pytest.mark.parametrize("size", [5, 7, 16])
def test_parts_of_a_batch_add_up_to_the_whole(algo: str, size: int) -> None:
    algorithm = RECIPES[algo].algorithm(
        tiny_config(algo, {"env.num_envs": 4, "training.n_steps": 8, "training.batch_size": 16})
    )
    policy = Table()
    with torch.no_grad():
        policy.logits.normal_()
    batch = next(iter(algorithm.minibatches(rollout(), shuffle, Alone())))

    def gradient(parts: list[tuple[Any, float]]) -> tuple[Tensor, Metrics]:
        policy.zero_grad()
        totals: Metrics = {}
        for part, share in parts:
            loss, metrics = algorithm.loss(policy, part)
            (loss * share).backward()  # type: ignore[no-untyped-call]
            for name, value in metrics.items():
                totals[name] = totals.get(name, torch.zeros(())) + share * value.detach()
        assert policy.logits.grad is not None
        return policy.logits.grad.clone(), totals

    whole, metrics = gradient([(batch, 1.0)])
    parts = batch.split(size)
    assert len(parts) > 1 or size == 16
    added, sums = gradient(parts)
    torch.testing.assert_close(whole, added)
    for name in metrics:
        torch.testing.assert_close(metrics[name].detach(), sums[name], rtol=1e-4, atol=1e-5)


def test_explained_variance() -> None:
    def of(values: Tensor, returns: Tensor) -> float | None:
        errors = returns - values
        moments = (returns.mean(), returns.square().mean(), errors.mean(), errors.square().mean())
        names = ("return_mean", "return_square", "error_mean", "error_square")
        return explained_variance(dict(zip(names, map(float, moments), strict=True)))

    returns = torch.tensor([1.0, 2.0, 3.0, 6.0])
    assert of(returns, returns) == pytest.approx(1)
    assert of(torch.zeros(4), returns) == pytest.approx(0, abs=1e-6)
    assert of(torch.zeros(4), torch.ones(4)) is None
