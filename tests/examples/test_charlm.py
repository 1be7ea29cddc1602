import math
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Examples = Callable[[str], Any]
Arrays = dict[str, np.ndarray[Any, Any]]


def model(**changes: Any) -> Arrays:
    """A small model in the right form, of two context bytes."""
    rng = np.random.default_rng(0)
    arrays: Arrays = {
        "embedding": rng.standard_normal((256, 4)).astype(np.float32),
        "w0": rng.standard_normal((8, 16)).astype(np.float32),
        "b0": np.zeros(16, np.float32),
        "w1": np.zeros((16, 256), np.float32),
        "b1": np.zeros(256, np.float32),
    }
    arrays.update(changes)
    return {name: array for name, array in arrays.items() if array is not None}


def save(folder: Path, arrays: Arrays) -> None:
    np.savez(folder / "model.npz", **arrays)  # type: ignore[arg-type]


def test_training_learns_and_more_time_learns_more(example: Examples) -> None:
    charlm = example("charlm")
    charlm.produce(OVERNIGHT_BUDGET_S="0.5")
    short = charlm.score()
    charlm.produce(OVERNIGHT_BUDGET_S="1.5")
    long = charlm.score()
    assert 2 < long < short < 6
    assert math.isfinite(charlm.score(holdout=True))


def test_a_budget_too_small_to_begin_ends_all_the_same(example: Examples) -> None:
    charlm = example("charlm")
    charlm.produce(OVERNIGHT_BUDGET_S="0.001")
    assert charlm.score() > 7


def test_a_model_that_knows_nothing_needs_eight_bits_per_byte(example: Examples) -> None:
    charlm = example("charlm")
    save(charlm.folder, model())
    assert charlm.score() == pytest.approx(8, abs=1e-5)


def test_a_table_of_counts_is_part_of_the_model(example: Examples) -> None:
    charlm = example("charlm")
    sources = Path(np.__file__).parent.glob("lib/*.py")
    text = np.frombuffer(b"".join(path.read_bytes() for path in sources), np.uint8)
    pairs = np.zeros((256, 256))
    np.add.at(pairs, (text[:-1], text[1:]), 1)
    table = np.log((pairs + 0.1) / (pairs + 0.1).sum(1, keepdims=True)).astype(np.float16)
    save(charlm.folder, model(table=table, table_order=np.array(1)))
    assert 3 < charlm.score() < 5


REFUSED = {
    "not finite": model(b1=np.full(256, np.nan, np.float32)),
    "infinite": model(w1=np.full((16, 256), np.inf, np.float32)),
    "wrong output": model(w1=np.zeros((16, 255), np.float32), b1=np.zeros(255, np.float32)),
    "bias that broadcasts": model(b0=np.zeros(1, np.float32)),
    "layer that does not follow": model(w1=np.zeros((17, 256), np.float32)),
    "context of half a byte": model(w0=np.zeros((6, 16), np.float32)),
    "context too long": model(w0=np.zeros((4 * 65, 16), np.float32)),
    "no layers": {"embedding": np.zeros((256, 4), np.float32)},
    "no embedding": model(embedding=None),
    "empty embedding": model(embedding=np.zeros((256, 0), np.float32)),
    "doubles": model(w0=np.zeros((8, 16))),
    "integers": model(w0=np.zeros((8, 16), np.int64)),
    "complex": model(w0=np.zeros((8, 16), np.complex64)),
    "unknown activation": model(activation=np.array("softplus")),
    "many activations": model(activation=np.array(["tanh", "relu"])),
    "unknown array": model(bonus=np.zeros(4, np.float32)),
    "a layer left out": model(w3=np.zeros((256, 256), np.float32), b3=np.zeros(256, np.float32)),
    "table without order": model(table=np.zeros((256, 256), np.float32)),
    "order without table": model(table_order=np.array(2)),
    "order too high": model(table=np.zeros((256, 256), np.float32), table_order=np.array(9)),
    "order that is a fraction": model(table=np.zeros((256, 256), np.float32), table_order=np.array(1.5)),
    "empty table": model(table=np.zeros((0, 256), np.float32), table_order=np.array(1)),
    "narrow table": model(table=np.zeros((256, 1), np.float32), table_order=np.array(1)),
    "too large": model(table=np.zeros((8000, 256), np.float32), table_order=np.array(2)),
}


def test_a_model_in_another_form_is_refused(example: Examples) -> None:
    charlm = example("charlm")
    for case, arrays in REFUSED.items():
        save(charlm.folder, arrays)
        (charlm.folder / "model.npz").rename(charlm.folder / f"{case}.npz")
    save(charlm.folder, model())
    assert charlm.refused("*.npz") == sorted(f"{case}.npz" for case in REFUSED)
    (charlm.folder / "not finite.npz").rename(charlm.folder / "model.npz")
    assert "finite" in charlm.refusal()


class Touch:
    """Unpickling it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_pickles_are_not_opened(example: Examples, tmp_path: Path) -> None:
    charlm, mark = example("charlm"), tmp_path / "opened"
    save(charlm.folder, model(w0=np.array([Touch(mark)], dtype=object)))
    assert "cannot be read" in charlm.refusal()
    (charlm.folder / "model.npz").write_bytes(pickle.dumps(Touch(mark)))
    assert "cannot be read" in charlm.refusal()
    assert not mark.exists()


def test_archives_that_are_broken_or_swell_are_refused(example: Examples) -> None:
    charlm = example("charlm")
    path = charlm.folder / "model.npz"
    path.write_bytes(b"not an archive")
    charlm.refusal()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("embedding.npy", bytes(50_000_000))
    assert path.stat().st_size < 100_000
    assert "larger" in charlm.refusal()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("embedding.npy", b"\x93NUMPY\x01\x00garbage")
    charlm.refusal()
    path.unlink()
    charlm.refusal()


def test_a_model_that_took_more_than_its_time_is_refused(example: Examples) -> None:
    charlm = example("charlm")
    save(charlm.folder, model())
    assert "processor time" in charlm.refusal(OVERNIGHT_BUDGET_S="0.8", OVERNIGHT_PRODUCE_CPU_S="2.5")
    assert charlm.score(OVERNIGHT_BUDGET_S="0.8", OVERNIGHT_PRODUCE_CPU_S="0.9") == pytest.approx(8, abs=1e-5)


def test_training_and_held_out_files_differ(example: Examples) -> None:
    charlm = example("charlm")
    said = charlm.run(
        'python -c \'import prepare; t, h = (set(prepare.files(s)) for s in ("train", "heldout"));'
        " print(len(t & h), len(t) > 100, len(h) > 30)'"
    )
    assert said.stdout.split() == ["0", "True", "True"], said.stderr
