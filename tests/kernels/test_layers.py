"""Our kernels against torch's, in double precision."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from rlcb.kernels import (
    Convolution,
    Linear,
    LinearReLU,
    MaxPool,
    PixelStem,
    Residual,
    RMSprop,
    add_up,
    parts_apart,
    weights_held,
)
from rlcb.kernels.library import BUILDS, CHOICE, TORCH, _processor_flags, kernels

Layer = Callable[[], nn.Module]
BYTES: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "first of nature": (lambda: Convolution(3, 32, 8, stride=4), (64, 64, 3)),
    "first of impala": (lambda: PixelStem(3, 16), (64, 64, 3)),
}
FLOATS: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "second of nature": (lambda: Convolution(32, 64, 4, stride=2), (15, 15, 32)),
    "third of nature": (lambda: Convolution(64, 64, 3), (6, 6, 64)),
    "wider": (lambda: Convolution(16, 32, 3, padding=1, relu=False), (32, 32, 16)),
    "no whole number of tiles": (lambda: Convolution(16, 16, 3, padding=1), (7, 9, 16)),
    "residual of 16": (lambda: Residual(16), (32, 32, 16)),
    "residual of 32": (lambda: Residual(32), (8, 8, 32)),
    "pooling": (MaxPool, (16, 16, 32)),
    "linear of nature": (lambda: LinearReLU(1024, 512), (1024,)),
    "actor": (lambda: Linear(512, 15), (512,)),
    "critic": (lambda: Linear(512, 1), (512,)),
    "linear of impala": (lambda: LinearReLU(2048, 256), (2048,)),
}
LAYERS = {**BYTES, **FLOATS}


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def choose(name: str) -> None:
        monkeypatch.setenv(CHOICE, name)
        kernels.cache_clear()
        if kernels().name != name:
            pytest.skip(f"{name}: no compiler when this was installed, or a processor that cannot run it")

    yield choose
    kernels.cache_clear()


def pictures(name: str, samples: int) -> Tensor:
    generator, shape = torch.Generator().manual_seed(samples), (samples, *LAYERS[name][1])
    if name in BYTES:
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    return torch.randn(shape, generator=generator)


def layer(name: str) -> nn.Module:
    torch.manual_seed(1)
    made = LAYERS[name][0]()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.2)
    return made


def there_and_back(module: nn.Module, x: Tensor) -> list[Tensor]:
    """The output, and the gradients of the input, where it has any, and of all parameters."""
    module.zero_grad()
    x = x.clone().requires_grad_(x.is_floating_point())
    y = module(x)
    towards = torch.randn(y.shape, generator=torch.Generator().manual_seed(7))
    (y * towards.to(y.dtype)).sum().backward()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return [y.detach(), *([] if x.grad is None else [x.grad]), *gradients]


@pytest.mark.parametrize("samples", [1, 2, 13])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_compute_what_torch_computes(
    use: Callable[[str], None], name: str, build: str, threads: int, samples: int
) -> None:
    module, x = layer(name), pictures(name, samples)
    use(TORCH)
    expected = there_and_back(deepcopy(module).double(), x.double() if x.is_floating_point() else x)
    use(build)
    torch.set_num_threads(threads)
    for ours, exact in zip(there_and_back(module, x), expected, strict=True):
        assert (ours.double() - exact).norm() / exact.norm() < 1e-5
    with torch.inference_mode():
        assert (module(x).double() - expected[0]).norm() / expected[0].norm() < 1e-5


@pytest.mark.parametrize("name", LAYERS)
def test_a_sample_comes_out_the_same_to_the_bit_whatever_is_beside_it(use: Callable[[str], None], name: str) -> None:
    use("avx2")
    module, x = layer(name), pictures(name, 23)
    with torch.inference_mode():
        together = module(x)
        assert torch.equal(together, module(x))
        for part in (slice(0, 1), slice(4, 11), slice(22, 23)):
            assert torch.equal(module(x[part]), together[part])
    assert torch.equal(module(x[4:11]), module(x)[4:11]), "with gradients"
    assert all(torch.equal(*both) for both in zip(there_and_back(module, x), there_and_back(module, x), strict=True))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", sorted(LAYERS.keys() - {"pooling"}))  # which has no weights
def test_parts_do_not_know_what_is_beside_them(use: Callable[[str], None], name: str, build: str) -> None:
    """Gradients of a whole are those of its parts, added up two by two, on any number of threads."""
    use(build)
    parts, each = 4, 13
    module, x = layer(name), pictures(name, parts * each)
    towards = torch.randn(parts * each, *module(x[:1]).shape[1:], generator=torch.Generator().manual_seed(7))

    def gradients(here: slice, number: int) -> list[Tensor]:
        module.zero_grad()
        with parts_apart(number):
            (module(x[here]) * towards[here]).sum().backward()
        return [p.grad for p in module.parameters() if p.grad is not None]

    alone = [gradients(slice(p * each, (p + 1) * each), 1) for p in range(parts)]
    halves = [gradients(slice(h * 2 * each, (h + 1) * 2 * each), 2) for h in range(2)]
    whole = gradients(slice(None), parts)
    for pieces in (halves, alone):
        expected = [add_up(same.clone() for same in weight) for weight in zip(*pieces, strict=True)]
        assert all(map(torch.equal, whole, expected))
    torch.set_num_threads(3)
    assert all(map(torch.equal, gradients(slice(None), parts), whole)), "threads"
    assert all(map(torch.equal, gradients(slice(0, each), 1), alone[0])), "threads that share a part"


def test_sums_are_a_tree_that_others_may_continue() -> None:
    terms = list(torch.randn(11, 1000).unbind())
    a, b, c, d, e, f, g, *_ = terms
    assert torch.equal(add_up(x.clone() for x in terms[:7]), ((a + b) + (c + d)) + ((e + f) + g))
    first, second = add_up(x.clone() for x in terms[:4]), add_up(x.clone() for x in terms[4:8])
    assert torch.equal(add_up(x.clone() for x in terms[:8]), first + second)
    assert not torch.equal(sum(terms[1:8], terms[0]), first + second), "rounding shows nothing here"


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_not_a_number_stays_so(use: Callable[[str], None], name: str) -> None:
    use("avx2")
    module, x = layer(name), pictures(name, 2)
    if name in BYTES:
        next(module.parameters()).data.fill_(torch.nan)
    else:
        x[0] = torch.nan
    assert module(x)[0].isnan().all()
    with torch.inference_mode():
        assert module(x)[0].isnan().all()


def test_kernels_are_built_where_they_can_be(use: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in C++ is no error of the installation: torch's would serve, and all tests above be skipped."""
    if not shutil.which("g++") or not BUILDS["avx2"] <= _processor_flags():
        pytest.skip("no C++ compiler, or a processor without AVX2")
    monkeypatch.delenv(CHOICE, raising=False)
    kernels.cache_clear()
    assert kernels().library is not None


def test_no_library_for_another_processor_or_none(use: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlcb.kernels.library._processor_flags", lambda: set())
    monkeypatch.delenv(CHOICE, raising=False)
    kernels.cache_clear()
    assert kernels().library is None


@pytest.mark.parametrize("name", LAYERS)
def test_weights_are_held_only_within(use: Callable[[str], None], name: str) -> None:
    use("avx2")
    module, x = layer(name), pictures(name, 2)
    with torch.inference_mode():
        before = module(x)
        with weights_held():
            assert torch.equal(module(x), before)
            assert torch.equal(module(x), before)
        for parameter in module.parameters():
            parameter.data.mul_(2)
        with weights_held():
            after = module(x)
        assert torch.equal(after, module(x))
        assert torch.equal(after, before) == (name == "pooling")


def test_rmsprop_steps_as_torchs(use: Callable[[str], None]) -> None:
    use("avx2")
    torch.manual_seed(0)
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 1003)) for _ in range(2))
    optimizers = RMSprop([ours], 3e-3, 0.99, 1e-5), torch.optim.RMSprop([theirs], 3e-3, 0.99, 1e-5)
    for _ in range(5):
        ours.grad = torch.randn(1003)
        theirs.grad = ours.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    mine, others = (optimizer.state_dict()["state"][0] for optimizer in optimizers)
    torch.testing.assert_close(mine, others)
