import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import UsageError
from overnight.core.ids import check_run_name, new_id, run_name


def test_run_names_are_valid() -> None:
    names = {run_name() for _ in range(200)}
    assert len(names) > 190
    for name in names:
        assert check_run_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "A", "a b", "-a", ".a", "a..b", "a.", "a.lock", "a/b", "a\n", "é", "a" * 64, "a@{", "a._b", "../x"]
)
def test_names_that_could_not_be_a_ref_or_folder(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be called"):
        check_run_name(name)


@given(st.text("ab0-._~lock", max_size=12))
def test_what_is_accepted_is_a_ref(name: str) -> None:
    try:
        check_run_name(name)
    except UsageError:
        return
    assert subprocess.run(["git", "check-ref-format", f"refs/overnight/{name}/1"]).returncode == 0


def test_ids_are_unique_and_sort_by_time() -> None:
    ids = [new_id("run") for _ in range(500)]
    assert len(set(ids)) == 500
    assert [item[:16] for item in ids] == sorted(item[:16] for item in ids)
    assert all(len(item) == 28 and item.startswith("run_") for item in ids)
