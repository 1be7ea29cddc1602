"""A small byte-level language model in numpy: embeddings of the last bytes, a hidden layer, a softmax over 256 bytes.

Trains until $OVERNIGHT_BUDGET_S seconds of processor time are used and writes model.npz, as program.md describes.
"""

import itertools
import os
import time

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # the other cores have other experiments

import numpy as np
import prepare

CONTEXT = 6  # knob: 2..12
EMBED = 16  # knob: [8, 12, 16, 24, 32]
HIDDEN = 128  # knob: [32, 48, 64, 96, 128, 192, 256]
LAYERS = 1  # knob: [1, 2]
ACTIVATION = "tanh"  # knob: ["tanh", "relu"]
BATCH = 256  # knob: 32..1024 log
LEARNING_RATE = 1e-3  # knob: 5e-4..3e-2 log
FINAL_RATE = 1.0  # knob: 0.02..1.0
INIT_SCALE = 1.0  # knob: 0.3..1.5 log
WARMUP = 0.05  # share of the budget
BETA1 = 0.9  # knob: 0.5..0.95
BETA2 = 0.999

BUDGET_S = float(os.environ.get("OVERNIGHT_BUDGET_S", "1"))


def main():
    rng = np.random.default_rng(int(os.environ.get("OVERNIGHT_SEED", "0")))
    text = np.frombuffer(prepare.text("train"), np.uint8)
    names, params = initialise(rng)
    means = [np.zeros_like(param) for param in params]
    squares = [np.zeros_like(param) for param in params]
    window = np.arange(CONTEXT + 1)
    begin, step, loss = time.process_time(), 0, 0.0
    while (used := time.process_time()) < BUDGET_S:
        progress = (used - begin) / (BUDGET_S - begin)
        rate = LEARNING_RATE * min(1.0, (progress + 1e-3) / WARMUP) * (FINAL_RATE + (1 - FINAL_RATE) * (1 - progress))
        at = rng.integers(0, len(text) - CONTEXT - 1, BATCH)
        batch = text[at[:, None] + window].astype(np.intp)
        loss, gradients = backward(params, batch[:, :-1], batch[:, -1])
        step += 1
        correct = rate * np.sqrt(1 - BETA2**step) / (1 - BETA1**step)
        for param, gradient, mean, square in zip(params, gradients, means, squares, strict=True):
            mean += (1 - BETA1) * (gradient - mean)
            square += (1 - BETA2) * (gradient * gradient - square)
            param -= np.float32(correct) * mean / (np.sqrt(square) + np.float32(1e-8))
    np.savez("model.npz", activation=np.array(ACTIVATION), **dict(zip(names, params, strict=True)))
    print(f"train_bpb: {loss / np.log(2):.4f}\nsteps: {step}\nparameters: {sum(param.size for param in params)}")


def initialise(rng):
    """Names and values: embedding, then weights and biases of each layer, the last one giving 256 logits."""
    names, params = ["embedding"], [rng.standard_normal((256, EMBED)).astype(np.float32) * np.float32(0.5)]
    widths = [CONTEXT * EMBED] + [HIDDEN] * LAYERS + [256]
    for layer, (inner, outer) in enumerate(itertools.pairwise(widths)):
        names += [f"w{layer}", f"b{layer}"]
        scale = np.float32(INIT_SCALE / np.sqrt(inner))
        params += [rng.standard_normal((inner, outer)).astype(np.float32) * scale, np.zeros(outer, np.float32)]
    return names, params


def backward(params, context, target):
    """Mean loss in nats, and its gradient for every parameter."""
    embedding, layers = params[0], params[1:]
    inputs = [embedding[context].reshape(len(context), -1)]
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        hidden = inputs[-1] @ weight + bias
        inputs.append(np.tanh(hidden) if ACTIVATION == "tanh" else np.maximum(hidden, 0))
    logits = inputs[-1] @ layers[-2] + layers[-1]
    logits -= logits.max(axis=1, keepdims=True)
    odds = np.exp(logits)
    total = odds.sum(axis=1, keepdims=True)
    rows = np.arange(len(target))
    loss = float(np.mean(np.log(total[:, 0]) - logits[rows, target]))
    delta = odds / total
    delta[rows, target] -= 1
    delta /= len(target)
    gradients = []
    for layer in reversed(range(len(inputs))):
        gradients += [delta.sum(axis=0), inputs[layer].T @ delta]
        delta = delta @ layers[2 * layer].T
        if layer:
            delta *= 1 - inputs[layer] ** 2 if ACTIVATION == "tanh" else inputs[layer] > 0
    cells = context.reshape(-1, 1) * EMBED + np.arange(EMBED)
    summed = np.bincount(cells.ravel(), weights=delta.ravel(), minlength=embedding.size)
    gradients.append(summed.astype(np.float32).reshape(embedding.shape))
    return loss, gradients[::-1]


if __name__ == "__main__":
    main()
