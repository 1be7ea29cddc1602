import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.kernel.linkless import FOLDER, Look, at_once, by_steps


def _tree(folder: Path) -> None:
    (folder / "docs" / "deep").mkdir(parents=True)
    (folder / "docs" / "a.md").write_text("a")
    (folder / "docs" / "deep" / "b").write_text("b")
    (folder / "link").symlink_to("docs")
    (folder / "docs" / "file").symlink_to("a.md")
    (folder / "docs" / "dangling").symlink_to("nowhere")
    (folder / "docs" / "loop").symlink_to("loop")
    (folder / "out").symlink_to("/")


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Look]]:
    folder = tmp_path_factory.mktemp("tree")
    _tree(folder)
    handle = os.open(folder, FOLDER)
    yield [way for way in (by_steps(handle), at_once(handle)) if way is not None]
    os.close(handle)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("docs", True),
        ("docs/a.md", True),
        ("docs/deep/b", True),
        ("docs/none", False),
        ("none/of/these", False),
        ("link", None),
        ("link/a.md", None),
        ("link/none", None),
        ("docs/file", None),
        ("docs/dangling", None),
        ("docs/loop", None),
        ("docs/loop/x", None),
        ("out/etc", None),
        ("docs/a.md/below", None),
        ("docs/" + "x" * 300, None),
    ],
)
def test_links_and_obstacles_are_told_from_what_is_there_and_what_is_not(
    ways: list[Look], path: str, found: bool | None
) -> None:
    assert [way(path.encode()) for way in ways] == [found] * len(ways)


_PART = st.sampled_from(["docs", "deep", "a.md", "b", "link", "file", "dangling", "loop", "out", "none", "é"])


@settings(max_examples=150, deadline=None)
@given(st.lists(_PART, min_size=1, max_size=6))
def test_one_call_says_what_looking_folder_by_folder_says(ways: list[Look], parts: list[str]) -> None:
    path = os.fsencode("/".join(parts))
    assert len({way(path) for way in ways}) == 1


def test_looking_leaves_no_descriptor_open(ways: list[Look]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for way in ways:
        for path in (b"docs/deep/b", b"docs/none", b"link/a.md", b"docs/a.md/below"):
            for _ in range(20):
                way(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_closed_folder_is_no_answer(tmp_path: Path) -> None:
    handle = os.open(tmp_path, FOLDER)
    looks = [by_steps(handle), at_once(handle)]
    os.close(handle)
    assert [way(b"x") for way in looks if way is not None] == [None for way in looks if way is not None]
