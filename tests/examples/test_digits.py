import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Examples = Callable[[str], Any]
Arrays = dict[str, np.ndarray[Any, Any]]


def answers(digits: Any) -> Arrays:
    with np.load(digits.folder / "answers.npz", allow_pickle=False) as archive:
        return dict(archive)


def hand_over(digits: Any, **arrays: Any) -> None:
    np.savez(digits.folder / "predictions.npz", **arrays)


def test_right_labels_score_one_and_the_halves_are_apart(example: Examples) -> None:
    digits = example("digits")
    truth = answers(digits)
    hand_over(digits, labels=truth["labels"])
    assert digits.score() == digits.score(holdout=True) == 1
    half = np.where(truth["holdout"], 0, truth["labels"])
    hand_over(digits, labels=half)
    assert digits.score() == 1
    assert digits.score(holdout=True) == pytest.approx(0.1, abs=0.05)
    assert abs(int(truth["holdout"].sum()) * 2 - len(half)) < 10


def test_what_train_sees_holds_no_answer(example: Examples) -> None:
    """Neither a label of an asked image, nor which half it belongs to, nor a copy of one that has a label."""
    digits = example("digits")
    truth = answers(digits)
    with np.load(digits.folder / "digits.npz", allow_pickle=False) as archive:
        visible = dict(archive)
    assert {name: array.shape for name, array in visible.items()} == {
        "images": (300, 64),
        "labels": (300,),
        "asked": (1497, 64),
    }
    assert not {row.tobytes() for row in visible["images"]} & {row.tobytes() for row in visible["asked"]}
    # Order tells nothing: neighbours in the file agree in label and half no more often than by chance.
    assert np.mean(truth["labels"][1:] == truth["labels"][:-1]) == pytest.approx(0.1, abs=0.04)
    assert np.mean(truth["holdout"][1:] == truth["holdout"][:-1]) == pytest.approx(0.5, abs=0.06)


def labels(**changes: Any) -> Any:
    return np.zeros(**{"shape": 1497, "dtype": np.uint8, **changes})


REFUSED: dict[str, dict[str, Any]] = {
    "too few": {"labels": labels(shape=1496)},
    "a matrix": {"labels": labels(shape=(1497, 1))},
    "probabilities": {"labels": labels(dtype=np.float32)},
    "truth values": {"labels": labels(dtype=bool)},
    "label 10": {"labels": labels() + 10},
    "label -1": {"labels": labels(dtype=np.int64) - 1},
    "text": {"labels": np.array(["0"] * 1497)},
    "another array": {"labels": labels(), "more": labels()},
    "another name": {"predictions": labels()},
    "pickled": {"labels": np.array([0] * 1497, dtype=object)},
    "too large": {"labels": labels(shape=1_000_000)},
}


def test_predictions_in_another_form_are_refused(example: Examples) -> None:
    digits = example("digits")
    for case, arrays in REFUSED.items():
        hand_over(digits, **arrays)
        (digits.folder / "predictions.npz").rename(digits.folder / f"case {case}.npz")
    hand_over(digits, labels=labels())
    (digits.folder / "predictions.npz").rename(digits.folder / "case right.npz")
    assert digits.refused("case *.npz", "1497") == sorted(f"case {case}.npz" for case in REFUSED)


def test_no_file_no_score(example: Examples) -> None:
    example("digits").refusal()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="the arena's own setup installs scikit-learn")
def test_training_learns_the_same_every_time_and_constants_matter(example: Examples) -> None:
    digits = example("digits")
    digits.produce(OVERNIGHT_SEED="1")
    baseline = digits.score()
    assert 0.85 < baseline < 0.95
    digits.produce(OVERNIGHT_SEED="2")
    assert digits.score() == baseline
    digits.edit("train.py", 'MODEL = "logistic" ', 'MODEL = "neighbours" ')
    digits.edit("train.py", "NEIGHBOURS = 5 ", "NEIGHBOURS = 300 ")
    digits.produce()
    assert digits.score() < baseline


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn brings the images")
def test_the_files_are_what_prepare_makes(example: Examples) -> None:
    digits = example("digits")
    kept = {name: np.load(digits.folder / name) for name in ("digits.npz", "answers.npz")}
    before = {(name, key): archive[key] for name, archive in kept.items() for key in archive.files}
    for archive in kept.values():
        archive.close()
    done = digits.run("python prepare.py")
    assert done.returncode == 0, done.stderr
    for (name, key), array in before.items():
        with np.load(Path(digits.folder) / name) as archive:
            np.testing.assert_array_equal(archive[key], array)
