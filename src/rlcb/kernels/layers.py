"""Layers that take and give pictures as [N, H, W, C]. Each is written twice: for our kernels and for torch's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlcb.kernels.library import kernels
from rlcb.kernels.parts import add_up, parts_of

ROWS_AT_ONCE = 4  # of a matrix, by the libraries below torch
BYTE = 255  # dividing the weights by it is cheaper than dividing every pixel

_held: dict[int, Tensor] | None = None  # transformed weights by the address of the weights


@contextmanager
def weights_held() -> Iterator[None]:
    """Within, no weights change: what kernels make of them is made once. That is much of acting on few pictures."""
    global _held
    _held = {}
    try:
        yield
    finally:
        _held = None


class Convolution(nn.Conv2d):
    """On floats, or on bytes that stand for 0 to 1."""

    def __init__(
        self, before: int, after: int, kernel: int, stride: int = 1, padding: int = 0, relu: bool = True
    ) -> None:
        super().__init__(before, after, kernel, stride, padding)
        self._relu = relu

    def forward(self, x: Tensor) -> Tensor:
        assert self.bias is not None
        stride, padding = self.stride[0], int(self.padding[0])
        if kernels().library is None:
            y = _with_torch(x, self.weight, self.bias, stride, padding)
            return F.relu(y, inplace=True) if self._relu else y
        return _apply(_Convolution, x, self.weight, self.bias, stride, padding, self._relu)


class Residual(nn.Module):
    """x + second(relu(first(relu(x))))"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.first, self.second
        assert first.bias is not None
        assert second.bias is not None
        if kernels().library is None:
            hidden = F.relu(_with_torch(F.relu(x), first.weight, first.bias, 1, 1), inplace=True)
            return x + _with_torch(hidden, second.weight, second.bias, 1, 1)
        return _apply(_Residual, x, first.weight, first.bias, second.weight, second.bias)


class PixelStem(nn.Conv2d):
    """From bytes to 16 channels, and the largest of 3 x 3 at every second pixel."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        assert self.bias is not None
        if kernels().library is None:
            return _pool_with_torch(_with_torch(x, self.weight, self.bias, 1, 1))
        return _apply(_PixelStem, x, self.weight, self.bias)


class MaxPool(nn.Module):
    """The largest of 3 x 3 at every second pixel."""

    def forward(self, x: Tensor) -> Tensor:
        return _pool_with_torch(x) if kernels().library is None else _apply(_MaxPool, x)


class Linear(nn.Linear):
    """Gradients are those of parts that were added up. A row comes out the same whatever is beside it."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return _apply(_Linear, x, self.weight, self.bias)
        return _product(x, self.weight, self.bias)


class LinearReLU(Linear):
    """Ours is for acting: on few rows, torch's spends much of its time on bringing the weights into order. Gradients,
    of hundreds of rows, use torch's."""

    def forward(self, x: Tensor) -> Tensor:
        if kernels().library is None or torch.is_grad_enabled():
            return F.relu(super().forward(x), inplace=True)
        x, sizes = x.contiguous(), (self.in_features, self.out_features)
        assert all(size % 16 == 0 for size in sizes)
        y = x.new_empty(len(x), self.out_features)
        _library().linear_forward(*map(_at, (x, self.weight, self.bias, y)), len(x), *sizes, _threads())
        return y


def _with_torch(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    """Permuted, [N, H, W, C] already is channels-last, the layout that torch's convolutions are fastest in."""
    if x.dtype == torch.uint8:
        x, weight = x.to(weight.dtype), weight / BYTE
    return F.conv2d(x.permute(0, 3, 1, 2), weight, bias, stride, padding).permute(0, 2, 3, 1)


def _pool_with_torch(x: Tensor) -> Tensor:
    return F.max_pool2d(x.permute(0, 3, 1, 2), 3, stride=2, padding=1).permute(0, 2, 3, 1)


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """Where nothing goes back, without what torch would write down for it: on few pictures that takes time, too."""
    apply = function.apply if torch.is_grad_enabled() else partial(function.forward, _Nowhere())
    y: Tensor = apply(*arguments)  # type: ignore[no-untyped-call]
    return y


class _Nowhere:
    """What a function is told to keep for the way back."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        pass


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The last rows, where they are fewer than the libraries take at once, would be added up in another order."""
    more = -len(x) % ROWS_AT_ONCE
    return F.linear(F.pad(x, (0, 0, 0, more)), weight, bias)[:-more].clone() if more else F.linear(x, weight, bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(x, weight)
        ctx.parts = parts_of(len(x))
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        parts = list(zip(dy.chunk(ctx.parts), x.chunk(ctx.parts), strict=True))
        dweight = add_up([of_outputs.T @ of_inputs for of_outputs, of_inputs in parts])
        return _product(dy, weight.T), dweight, add_up([of_outputs.sum(0) for of_outputs, _ in parts])


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, relu: bool
    ) -> Tensor:
        x = x.contiguous()
        ctx.call = call = _Call(x, weight, stride, padding, relu_after=relu)
        y = call.forward(x, weight, bias)
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight, y = ctx.saved_tensors
        dx = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        dweight, dbias = ctx.call.backward(x, weight, y, dy.contiguous(), dx)
        return dx, dweight, dbias, None, None, None


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, weight2: Tensor, bias2: Tensor
    ) -> Tensor:
        x = x.contiguous()
        ctx.first = _Call(x, weight, 1, 1, relu_before=True, relu_after=True)
        hidden = ctx.first.forward(x, weight, bias)
        ctx.second = second = _Call(hidden, weight2, 1, 1)
        ctx.save_for_backward(x, weight, hidden, weight2)
        return second.forward(hidden, weight2, bias2, residual=x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        x, weight, hidden, weight2 = ctx.saved_tensors
        dy = dy.contiguous()
        dhidden, dx = torch.empty_like(hidden), torch.empty_like(x)
        dweight2, dbias2 = ctx.second.backward(hidden, weight2, None, dy, dhidden)
        dweight, dbias = ctx.first.backward(x, weight, hidden, dhidden, dx, more=dy)
        return dx, dweight, dbias, dweight2, dbias2


class _PixelStem(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # type: ignore[override]
        x = x.contiguous()
        samples, height, width, channels = x.shape
        assert (x.dtype, channels, len(weight), height % 2, width % 8) == (torch.uint8, 3, 16, 0, 0)
        y = weight.new_empty(samples, height // 2, width // 2, len(weight))
        winners = torch.empty_like(y, dtype=torch.uint8)
        _library().stem_forward(
            height, width, _at(x), _at(weight), _at(bias), 1 / BYTE, _at(y), _at(winners), samples, _threads()
        )
        ctx.save_for_backward(x, weight, winners)
        ctx.parts = parts_of(samples)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[None, Tensor, Tensor]:  # type: ignore[override]
        x, weight, winners = ctx.saved_tensors
        samples, height, width, _ = x.shape
        dy = dy.contiguous()
        dweight, dbias = torch.empty_like(weight), weight.new_empty(len(weight))
        pointers = [_at(tensor) for tensor in (dy, winners, dweight, dbias)]
        _library().stem_backward(height, width, _at(x), 1 / BYTE, *pointers, samples, ctx.parts, _threads())
        return None, dweight, dbias


class _MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        x = x.contiguous()
        samples, height, width, channels = ctx.shape = x.shape
        assert (height % 2, width % 2, channels % 16) == (0, 0, 0)
        y = x.new_empty(samples, height // 2, width // 2, channels)
        winners = torch.empty_like(y, dtype=torch.uint8)
        _library().pool_forward(height, width, channels, _at(x), _at(y), _at(winners), samples, _threads())
        ctx.save_for_backward(winners)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:  # type: ignore[override]
        (winners,) = ctx.saved_tensors
        samples, height, width, channels = ctx.shape
        dy, dx = dy.contiguous(), dy.new_empty(ctx.shape)
        _library().pool_backward(height, width, channels, _at(dy), _at(winners), _at(dx), samples, _threads())
        return dx


class _Call:
    """One convolution of one shape, by our kernels: 3 x 3 taps of stride 1, or filters of twice their stride; channels
    in sixteens, or three bytes."""

    def __init__(
        self,
        x: Tensor,
        weight: Tensor,
        stride: int,
        padding: int,
        *,
        relu_before: bool = False,
        relu_after: bool = False,
    ) -> None:
        self._samples, height, width, channels = x.shape
        outputs, _, kernel, _ = weight.shape
        is_bytes = x.dtype == torch.uint8
        assert outputs % 16 == 0
        assert (stride, channels) == (4, 3) if is_bytes else channels % 16 == 0
        assert kernel == (3 if stride == 1 else 2 * stride)
        self._shape = (ctypes.c_int * 8)(height, width, channels, outputs, kernel, stride, padding, is_bytes)
        self._out = [(size + 2 * padding - kernel) // stride + 1 for size in (height, width)]
        self._scale = 1 / BYTE if is_bytes else 1.0
        self._relu = (relu_before, relu_after)
        self._parts = parts_of(self._samples)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None = None) -> Tensor:
        y = weight.new_empty(self._samples, *self._out, len(weight))
        pointers, more = (_at(x), _at(weight), _at(bias)), (_at(residual), _at(self._filters(weight)))
        _library().convolution_forward(
            self._shape, *pointers, self._scale, *more, _at(y), self._samples, *self._relu, _threads()
        )
        return y

    def _filters(self, weight: Tensor) -> Tensor | None:
        if _held is None:
            return None
        address = weight.data_ptr()
        if address not in _held:
            arguments = self._shape, address, self._scale
            filters = weight.new_empty(_library().convolution_filters(*arguments, None))
            _library().convolution_filters(*arguments, _at(filters))
            _held[address] = filters
        return _held[address]

    def backward(
        self, x: Tensor, weight: Tensor, y: Tensor | None, dy: Tensor, dx: Tensor | None, more: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Fill dx, where asked for, to which `more` is added; return those of weight and bias."""
        dweight, dbias = torch.empty_like(weight), weight.new_empty(len(weight))
        pointers = [_at(tensor) for tensor in (y, dy, more, dx, dweight, dbias)]
        _library().convolution_backward(
            self._shape,
            _at(x),
            _at(weight),
            self._scale,
            *pointers,
            self._samples,
            self._parts,
            *self._relu,
            _threads(),
        )
        return dweight, dbias


def _library() -> ctypes.CDLL:
    library = kernels().library
    assert library is not None
    return library


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _threads() -> int:
    return torch.get_num_threads()
