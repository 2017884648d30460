"""Ops of networks in NumPy, as loops over positions: the obvious way."""

import math

import numpy as np


def conv(x, kernel, strides, padding, dilations=(1, 1), groups=1):
    """Convolve NCHW data with an OIHW kernel; `padding` is ((top, bottom), (left, right))."""
    n, c, _, _ = x.shape
    o, i, kh, kw = kernel.shape
    assert c == i * groups
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    reach = [(k - 1) * d + 1 for k, d in zip((kh, kw), dilations, strict=True)]
    sizes = [(m - r) // s + 1 for m, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    result = np.zeros((n, o, *sizes), x.dtype)
    for place in np.ndindex(n, o, *sizes):
        image, out, row, column = place
        group = out // (o // groups)
        part = x[image, group * i : (group + 1) * i]
        top, left = row * strides[0], column * strides[1]
        window = part[:, top : top + reach[0] : dilations[0], left : left + reach[1] : dilations[1]]
        result[place] = (window * kernel[out]).sum()
    return result


def pool(x, sizes, strides, padding, function, outside):
    """Reduce windows of NCHW data; padding holds `outside`, and NaN counts as nothing."""
    x = np.pad(x, ((0, 0), (0, 0), *padding), constant_values=outside)
    count = [(m - k) // s + 1 for m, k, s in zip(x.shape[2:], sizes, strides, strict=True)]
    result = np.zeros((*x.shape[:2], *count), x.dtype)
    for row, column in np.ndindex(*count):
        top, left = row * strides[0], column * strides[1]
        window = x[:, :, top : top + sizes[0], left : left + sizes[1]]
        result[:, :, row, column] = function(window, axis=(2, 3))
    return result


def conv_transpose(x, kernel, strides, padding, sizes, groups=1):
    """Spread NCHW data by a kernel [C, M/group, h, w] on an image of the given sizes."""
    n, c, h, w = x.shape
    _, m, kh, kw = kernel.shape
    (top, bottom), (left, right) = padding
    full = np.zeros((n, m * groups, sizes[0] + top + bottom, sizes[1] + left + right), x.dtype)
    for image, channel, row, column in np.ndindex(n, c, h, w):
        first = channel // (c // groups) * m
        rows, columns = row * strides[0], column * strides[1]
        place = full[image, first : first + m, rows : rows + kh, columns : columns + kw]
        place += (
            x[image, channel, row, column] * kernel[channel][:, : place.shape[1], : place.shape[2]]
        )
    return full[:, :, top : top + sizes[0], left : left + sizes[1]]


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def erf(x):
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def normalize(x, axes, epsilon):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def nhwc(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))
