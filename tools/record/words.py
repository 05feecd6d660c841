"""The words of recordings, and numbers to put into them."""

import struct

import torch

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}


class Ints(list):
    """Sizes or dimensions, as one argument."""


def number(x, dtype):
    if dtype == torch.bool:
        return "1" if x else "0"
    if not dtype.is_floating_point:
        return str(x)
    if dtype == torch.float64:
        return repr(float(x))
    # The shortest text that reads back as the same float32.
    for digits in range(1, 10):
        text = f"{x:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", x):
            return text
    return f"{x:.9g}"


def tensor(x):
    x = x.detach()
    sizes = "x".join(str(n) for n in x.shape) or "scalar"
    return " ".join([DTYPES[x.dtype], sizes] + [number(v, x.dtype) for v in x.flatten().tolist()])


def value(x):
    if x is None:
        return "none"
    if isinstance(x, torch.Tensor):
        return tensor(x)
    if isinstance(x, torch.dtype):
        return "string " + DTYPES[x]
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, int):
        return f"int {x}"
    if isinstance(x, float):
        return f"float {x!r}"
    if isinstance(x, str):
        return "string " + x
    if isinstance(x, Ints):
        return " ".join(["ints", str(len(x))] + [str(v) for v in x])
    return " ".join(["list", str(len(x))] + [value(v) for v in x])


class Numbers:
    """A multiplicative congruential generator (Park, Miller 1988): the same numbers for ever."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = self.state * 48271 % 2147483647
        return self.state / 2147483647

    def real(self, *sizes, low=-2.0, high=2.0, dtype=torch.float32):
        count = 1
        for n in sizes:
            count *= n
        # Few digits, so that inputs are short to write and exact in f32.
        values = [round((low + (high - low) * self.next()) * 256) / 256 for _ in range(count)]
        return torch.tensor(values, dtype=torch.float64).reshape(sizes).to(dtype)

    def ints(self, *sizes, low=0, high=4, dtype=torch.int64):
        count = 1
        for n in sizes:
            count *= n
        values = [low + int((high - low) * self.next()) for _ in range(count)]
        return torch.tensor(values, dtype=dtype).reshape(sizes)
