"""Generates layers.jsonl: convolutions and norms that PyTorch has computed.

    torch_cases.py [--check]

README.md has the format. With --check nothing is written: the program fails if the file would
change. Needs PyTorch; tests read the file and do not.
"""

import itertools
import json
import random
import sys
from pathlib import Path

import torch
from torch.nn import functional

FILE = Path(__file__).resolve().parent / "layers.jsonl"
VERSION = "1.13.1 (Debian 12, python3-torch 1.13.1+dfsg-4, CPU)"
PAD_MODES = {"zeros": "constant", "constant": "constant", "circular": "circular",
             "reflect": "reflect", "replicate": "replicate"}
MODES = list(PAD_MODES)


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    rng = random.Random(1)
    cases = [*convolutions(rng), *transposed(rng), *planes(rng), *norms()]
    lines = [{"torch": VERSION}]
    for seed, case in enumerate(cases):
        case = {"op": case.pop("op"), "seed": seed, **case}
        run = run_norm if case["op"] in ("batch_norm", "group_norm") else run_conv
        expected = run(case)
        lines.append({**case, **expected})
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    print(f"{len(cases)} cases, {len(text)} bytes")
    if arguments:
        return 0 if text == FILE.read_text() else 1
    FILE.write_text(text)
    return 0


def values(seed, number, shape, scale):
    """Tensor `number` of a case: see README.md, "Values"."""
    state = (seed * 8 + number) * 7919 % 2**31
    count = 1
    for extent in shape:
        count *= extent
    flat = []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        flat.append(((state >> 16) % (8 * scale + 1) - 4 * scale) / scale)
    tensor = torch.tensor(flat, dtype=torch.float64).reshape(shape)
    return tensor.requires_grad_()


def convolutions(rng):
    """1-D: the grid of kernel, stride, dilation and padding, the other settings in turn."""
    grid = itertools.product(range(1, 8), range(1, 5), range(1, 4), range(4))
    for number, (k, s, d, p) in enumerate(grid):
        mode = MODES[number % len(MODES)]
        high = p if number % 3 else rng.randrange(4)
        extent = d * (k - 1) + 1
        cells = max(extent - p - high, 4) + rng.randrange(3, 11)
        yield conv(rng, [cells], [(k, s, d, (p, high), mode)])
    for k, d in itertools.product(range(1, 8), range(1, 4)):
        total = d * (k - 1)
        yield conv(rng, [total + 6], [(k, 1, d, (total // 2, total - total // 2), "zeros")],
                   same=True)


def transposed(rng):
    for number, (k, s, d) in enumerate(itertools.product(range(1, 8), range(1, 5), range(1, 4))):
        for padding in ((0, 0), (number % 4, number % 4)):
            cells = rng.randrange(4, 9)
            if (cells - 1) * s + d * (k - 1) + 1 <= sum(padding) + 3:
                padding = (0, 0)
            yield conv(rng, [cells], [(k, s, d, padding, "zeros")], [rng.randrange(max(s, d))])


def planes(rng):
    """2-D, with settings and edges that differ between the dimensions."""
    for number in range(72):
        dims, cells = [], []
        for _ in range(2):
            k, s, d = rng.randrange(1, 5), rng.randrange(1, 4), rng.randrange(1, 3)
            p = rng.randrange(3)
            extent = d * (k - 1) + 1
            mode = MODES[number % len(MODES)]
            high = p
            if number % 2:
                mode, high = rng.choice(MODES), rng.randrange(3)
            dims.append((k, s, d, (p, high), mode))
            cells.append(max(extent - p - high, 3) + rng.randrange(1, 5))
        yield conv(rng, cells, dims)
    for _ in range(36):
        dims, output_padding = [], []
        for _ in range(2):
            k, s, d = rng.randrange(1, 5), rng.randrange(1, 4), rng.randrange(1, 3)
            p = rng.randrange(3)
            dims.append((k, s, d, (p, p), "zeros"))
            output_padding.append(rng.randrange(max(s, d)))
        yield conv(rng, [rng.randrange(4, 6), rng.randrange(4, 6)], dims, output_padding)


def conv(rng, cells, dims, output_padding=None, same=False):
    channels = [1, rng.randrange(1, 3), rng.randrange(1, 3)]
    return {"op": "conv_transpose" if output_padding is not None else "conv",
            "call": "same" if same else None,
            "x": [*channels[:2], *cells], "out": channels[2],
            "kernel": [k for k, _, _, _, _ in dims], "stride": [s for _, s, _, _, _ in dims],
            "dilation": [d for _, _, d, _, _ in dims],
            "padding": [list(p) for _, _, _, p, _ in dims],
            "mode": [mode for _, _, _, _, mode in dims],
            "output_padding": output_padding or [0] * len(dims)}


def run_conv(case):
    seed, rank = case["seed"], len(case["kernel"])
    x = values(seed, 0, case["x"], 1)
    pair = [case["out"], case["x"][1]]
    if case["op"] == "conv_transpose":
        pair.reverse()
    weight = values(seed, 1, [*pair, *case["kernel"]], 1)
    bias = values(seed, 2, [case["out"]], 1)
    y = call_conv(case, rank, x, weight, bias)
    y.backward(values(seed, 3, list(y.shape), 1).detach())
    return {"y_shape": list(y.shape), "y": whole(y), "dx": whole(x.grad), "dw": whole(weight.grad),
            "db": whole(bias.grad)}


def call_conv(case, rank, x, weight, bias):
    """The layer of PyTorch where it has the setting, else its pad and a layer without padding."""
    stride, dilation, padding = case["stride"], case["dilation"], case["padding"]
    symmetric = all(low == high for low, high in padding)
    lows = [low for low, _ in padding]
    if case["op"] == "conv_transpose":
        case["call"] = "module"
        layer = (torch.nn.ConvTranspose1d if rank == 1 else torch.nn.ConvTranspose2d)(
            weight.shape[0], weight.shape[1], case["kernel"], stride=stride, padding=lows,
            output_padding=case["output_padding"], dilation=dilation)
        return run_module(layer, x, weight, bias)
    one_mode = len(set(case["mode"])) == 1 and case["mode"][0] != "constant"
    if case["call"] == "same" or (one_mode and symmetric):
        same = case["call"] == "same"
        case["call"] = case["call"] or "module"
        layer = (torch.nn.Conv1d if rank == 1 else torch.nn.Conv2d)(
            weight.shape[1], weight.shape[0], case["kernel"], stride=stride,
            padding="same" if same else lows, dilation=dilation, padding_mode=case["mode"][0])
        return run_module(layer, x, weight, bias)
    case["call"] = "pad"
    padded = x
    for dim in range(rank):
        widths = [0, 0] * rank
        widths[2 * (rank - 1 - dim):2 * (rank - dim)] = padding[dim]
        mode = case["mode"][dim]
        # A constant of 2 + dim: README.md.
        value = {"value": 2.0 + dim} if mode == "constant" else {}
        padded = functional.pad(padded, widths, mode=PAD_MODES[mode], **value)
    return (functional.conv1d if rank == 1 else functional.conv2d)(
        padded, weight, bias, stride=stride, dilation=dilation)


def run_module(layer, x, weight, bias):
    del layer.weight, layer.bias
    layer.weight, layer.bias = weight, bias
    return layer(x)


def whole(tensor):
    flat = tensor.detach().reshape(-1).tolist()
    assert all(value == int(value) for value in flat)
    return [int(value) for value in flat]


def norms():
    """The last dimension but one is the one that tests cut."""
    for shape in ([2, 4, 7, 1], [1, 4, 5, 2], [3, 2, 4, 2], [2, 6, 9, 1]):
        yield {"op": "batch_norm", "x": shape, "groups": 1, "epsilon": 1e-5}
        for groups in sorted({1, 2, shape[1]}):
            yield {"op": "group_norm", "x": shape, "groups": groups, "epsilon": 1e-3}


def run_norm(case):
    seed, shape = case["seed"], case["x"]
    x = values(seed, 0, shape, 8)
    gamma, beta = (values(seed, number, [shape[1]], 8) for number in (1, 2))
    result = {}
    if case["op"] == "batch_norm":
        mean = torch.zeros(shape[1], dtype=torch.float64)
        variance = torch.zeros(shape[1], dtype=torch.float64)
        y = functional.batch_norm(x, mean, variance, gamma, beta, training=True, momentum=1.0,
                                  eps=case["epsilon"])
        result = {"mean": mean.tolist(), "unbiased_variance": variance.tolist()}
    else:
        y = functional.group_norm(x, case["groups"], gamma, beta, eps=case["epsilon"])
    y.backward(values(seed, 3, shape, 8).detach())
    for name, tensor in (("y", y), ("dx", x.grad), ("dgamma", gamma.grad), ("dbeta", beta.grad)):
        result[name] = tensor.detach().reshape(-1).tolist()
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
