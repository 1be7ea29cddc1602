import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.kernel.paths import PathRefused, PathRoot


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "a.md").write_text("a")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("s")
    return folder


def test_plain_paths_are_relative_names(root: Path) -> None:
    paths = PathRoot(root)
    assert paths.resolve("docs/a.md").name == "docs/a.md"
    assert paths.resolve("./docs//a.md").name == "docs/a.md"
    assert paths.resolve(str(root / "docs")).name == "docs"
    assert paths.resolve(".").name == "."
    assert not paths.resolve("docs/new/b.md").exists


def test_links_lead_where_they_lead_also_when_nothing_is_there_yet(root: Path, tmp_path: Path) -> None:
    (root / "docs" / "out").symlink_to(tmp_path / "outside")
    (root / "docs" / "file").symlink_to("../../outside/secret")
    (root / "docs" / "dangling").symlink_to(tmp_path / "outside" / "not-yet")
    paths = PathRoot(root)
    for path in ("docs/out/secret", "docs/file", "docs/out/not-yet/deeper", "docs/dangling", "docs/out/../outside/x"):
        found = paths.resolve(path)
        assert not found.inside, path
        assert found.name.startswith(str(tmp_path / "outside")), path


def test_dots_after_a_link_mean_the_links_target(root: Path, tmp_path: Path) -> None:
    (root / "docs" / "out").symlink_to(tmp_path / "outside")
    assert PathRoot(root).resolve("docs/out/..").real == str(tmp_path)
    assert PathRoot(root).resolve("docs/none/../../../outside").real == str(tmp_path / "outside")


@pytest.mark.parametrize("path", ["", "a\0b", "~/x", "a\nb", "docs/a.md/below"])
def test_what_cannot_be_resolved_with_certainty_is_refused(root: Path, path: str) -> None:
    with pytest.raises(PathRefused):
        PathRoot(root).resolve(path)


def test_a_loop_of_links_is_refused(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    with pytest.raises(PathRefused):
        PathRoot(root).resolve("one/x")


def test_a_folder_swapped_for_a_link_after_the_check_is_not_followed(root: Path, tmp_path: Path) -> None:
    paths = PathRoot(root)
    name = paths.resolve("docs/secret").name
    (root / "docs" / "a.md").unlink()
    (root / "docs").rmdir()
    (root / "docs").symlink_to(tmp_path / "outside")
    with pytest.raises(PathRefused, match="replaced by a link"):
        paths.open(name, os.O_RDONLY)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["docs", "a.md", "..", ".", "link", "up", "new", "x"]), min_size=1, max_size=7))
def test_resolution_agrees_with_the_kernels_own(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    top = tmp_path_factory.getbasetemp() / "agree"
    root = top / "root"
    if not root.exists():
        (root / "docs" / "x").mkdir(parents=True)
        (root / "docs" / "link").symlink_to("x")
        (root / "link").symlink_to("docs/link")
        (root / "up").symlink_to("..")
        (root / "docs" / "up").symlink_to("../up/root/docs")
    path = "/".join(parts)
    try:
        found = PathRoot(root).resolve(path)
    except PathRefused:
        return
    assert found.real == os.path.realpath(root / path)
