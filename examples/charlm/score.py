"""Scores model.npz: bits per byte on held-out files of the standard library. Never imports train.py.

`--holdout` scores it on numpy's own sources instead: code by other hands, which nobody selects by.
The model is data: arrays whose names, types, shapes and sizes are checked here, run by this file's own arithmetic.
"""

import math
import os
import re
import sys
import zipfile
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import prepare

MODEL_BYTES = 8_000_000
MAX_CONTEXT = 64
WINDOWS, WINDOW = 96, 128  # bytes that are scored: 12,288 of about 1.5 MB held out
SALT = 20261130  # which windows: known to this file only, and it is hidden


class Refused(Exception):
    """The model is not in the form that program.md describes, or took too long."""


def check_time():
    """Refuse a model that took more than its budget of processor time, by a quarter and a quarter of a second.

    Overnight measures what produce used, from outside; who runs this by hand has no such figure.
    """
    budget_s, used_s = (float(os.environ.get(f"OVERNIGHT_{name}_S", "0")) for name in ("BUDGET", "PRODUCE_CPU"))
    if used_s > 1.25 * budget_s + 0.25:
        raise Refused(f"training used {used_s:.2f} s of processor time; the budget is {budget_s:.2f} s")


def load(path):
    """The arrays of a model: nothing but small finite numbers of the right shapes.

    Raises:
        Refused: anything else. Pickles are never opened.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(item.file_size for item in archive.infolist()) > MODEL_BYTES:
                raise Refused(f"the model is larger than {MODEL_BYTES:,} bytes")
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (
        OSError,
        ValueError,
        EOFError,
        MemoryError,
        SyntaxError,
        zipfile.BadZipFile,
        NotImplementedError,
    ) as problem:
        raise Refused(f"model.npz cannot be read: {problem}") from None
    activation = arrays.pop("activation", np.array("tanh"))
    if activation.shape != () or str(activation) not in ("tanh", "relu"):
        raise Refused("activation is neither tanh nor relu")
    order = arrays.pop("table_order", np.array(0))
    if order.shape != () or order.dtype.kind not in "iu" or not 0 <= int(order) <= 8:
        raise Refused("table_order is not a whole number from 0 to 8")
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float16) or not np.isfinite(array).all():
            raise Refused(f"{name} is not made of finite float32 or float16 numbers")
    depth = sum(re.fullmatch(r"w\d", name) is not None for name in arrays)
    layers = [(arrays.pop(f"w{layer}", None), arrays.pop(f"b{layer}", None)) for layer in range(depth)]
    embedding, table = arrays.pop("embedding", None), arrays.pop("table", None)
    if arrays or embedding is None or not layers or any(array is None for layer in layers for array in layer):
        raise Refused(f"arrays are missing or unknown: {sorted(arrays)}")
    if embedding.ndim != 2 or embedding.shape[0] != 256 or not embedding.size:
        raise Refused(f"embedding has shape {embedding.shape}, not (256, n)")
    if (table is None) != (int(order) == 0):
        raise Refused("table and table_order go together")
    if table is not None and (table.ndim != 2 or table.shape[1] != 256 or not table.size):
        raise Refused(f"table has shape {table.shape}, not (n, 256)")
    width = layers[0][0].shape[0]
    context, rest = divmod(width, embedding.shape[1])
    if rest or not 1 <= context <= MAX_CONTEXT:
        raise Refused(f"w0 takes {width} inputs: not 1 to {MAX_CONTEXT} embeddings of {embedding.shape[1]}")
    for weight, bias in layers:
        if weight.ndim != 2 or weight.shape[0] != width or bias.shape != weight.shape[1:]:
            raise Refused(
                f"a layer of shape {weight.shape} with bias {bias.shape} does not follow one of width {width}"
            )
        width = weight.shape[1]
    if width != 256:
        raise Refused(f"the last layer gives {width} logits, not 256")
    return embedding, context, layers, str(activation), table, int(order)


def bits(model, history, target):
    """Bits that the model needs for each of `target` after `history`, a matrix of the MAX_CONTEXT bytes before it."""
    embedding, context, layers, activation, table, order = model
    hidden = embedding.astype(np.float32)[history[:, -context:]].reshape(len(target), -1)
    for layer, (weight, bias) in enumerate(layers):
        if layer:
            hidden = np.tanh(hidden) if activation == "tanh" else np.maximum(hidden, 0)
        hidden = hidden @ weight.astype(np.float32) + bias.astype(np.float32)
    logits = hidden
    if table is not None:
        row = np.zeros(len(target), np.uint64)
        for column in range(order, 0, -1):
            row = row * np.uint64(257) + history[:, -column].astype(np.uint64)
        logits += table[row % np.uint64(len(table))]
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[np.arange(len(target)), target].astype(np.float64)
    return (np.log(np.exp(logits, out=logits).sum(axis=1, dtype=np.float64)) - chosen) / math.log(2)


def sample(text):
    """History and target of every scored byte of a text."""
    text = np.frombuffer(text, np.uint8)
    starts = np.random.default_rng(SALT).integers(MAX_CONTEXT, len(text) - WINDOW, WINDOWS)
    at = (starts[:, None] + np.arange(WINDOW)).ravel()
    return text[at[:, None] + np.arange(-MAX_CONTEXT, 0)], text[at]


def other_code():
    """Python by other hands: the numpy that runs this, without its tests."""
    package = Path(np.__file__).parent
    return b"".join(path.read_bytes() for path in sorted(package.glob("*/*.py")) if path.parent.name != "tests")


if __name__ == "__main__":
    try:
        check_time()
        model = load("model.npz")
        value = float(
            np.mean(bits(model, *sample(other_code() if "--holdout" in sys.argv else prepare.text("heldout"))))
        )
    except Refused as problem:
        sys.exit(f"refused: {problem}")
    if not math.isfinite(value):
        sys.exit(f"refused: val_bpb is {value}")
    print(f"METRIC val_bpb={value:.6f}")
