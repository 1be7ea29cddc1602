"""Other tools' formats: what we write they can read, and their logs become runs of the past."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overnight.core.errors import UsageError
from overnight.loop.record.export import export, import_file
from overnight.loop.report.write import write_report
from overnight.workspace import night

TSV = (
    "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n"
    "a1b2c3d\t0.997900\t44.0\tkeep\tbaseline\n"
    "b2c3d4e\t0.993200\t44.2\tkeep\tincrease LR to 0.04\n"
    "c3d4e5f\t1.005000\t44.0\tdiscard\tswitch to GeLU activation\n"
    "d4e5f6g\t0.000000\t0.0\tcrash\tdouble model width (OOM)\n"
)


def test_karpathys_columns(arena: Callable[..., Path], spend: Any, authored: Any) -> None:
    script = (
        "import json, os\nn = json.load(open(os.environ['OVERNIGHT_CONTEXT']))['experiment']\n"
        "open('art.py', 'a').write(['', '\\nX = 6.0\\n', '\\nX = 0.0\\n', '\\nraise SystemExit(1)\\n'][n])\n"
        "open(os.environ['OVERNIGHT_HYPOTHESIS'], 'w').write(f'idea\\t{n}\\nwith a tab')"
    )
    result = spend(arena(), 3, **authored(script))
    info = result.workspace.record.run("night")
    lines = list(export(info, result.experiments, "karpathy"))
    assert lines[0].split("\t") == ["commit", "score", "memory_gb", "status", "description"]
    rows = [line.split("\t") for line in lines[1:]]
    assert [row[3] for row in rows] == ["keep", "keep", "discard", "crash"]
    assert rows[3][1:3] == ["0.000000", "0.0"] and all(len(row) == 5 for row in rows)
    entries = [json.loads(line) for line in export(info, result.experiments, "pi")]
    assert entries[0]["type"] == "config" and entries[0]["bestDirection"] == "higher"
    assert [entry["status"] for entry in entries[1:]] == ["keep", "keep", "discard", "crash"]
    ours = [json.loads(line) for line in export(info, result.experiments, "jsonl")]
    assert {"n", "commit", "parent", "status", "metric", "delta", "hypothesis", "seconds", "evidence"} <= set(ours[0])
    for form, text in (("karpathy", lines), ("pi", [json.dumps(entry) for entry in entries])):
        path = result.workspace.folder / form
        path.write_text("\n".join(text) + "\n")
        run = import_file(result.workspace.record, path, None, "maximize" if form == "karpathy" else None)
        again = result.workspace.record.experiments(run)
        assert [item.metric for item in again] == [item.metric for item in result.experiments]
        report = night.report(result.workspace, run)
        assert (report["kept"], report["crashed"], report["best"]) == (1, 1, result.report["best"])


def test_an_imported_log_is_a_readable_run(arena: Callable[..., Path], spend: Any, tmp_path: Path) -> None:
    record = spend(arena(), 1).workspace.record
    path = tmp_path / "results.tsv"
    path.write_text(TSV)
    run = import_file(record, path, "mar5", None)
    items = record.experiments(run)
    assert [item.status for item in items] == ["baseline", "keep", "discard", "crash"]
    assert items[1].delta == pytest.approx(0.0047) and items[3].metric is None
    assert record.run(run).state == "imported"
    report = write_report(record, tmp_path, tmp_path, run)
    assert (report["seconds"], report["mode"], report["gain"]) == (None, None, None)
    page = Path(report["path"]).read_text()
    assert "Nothing here was measured by Overnight" in page and "git merge" not in page
    for claimed in ("side by side", "measured afresh yet", "Read the diff"):
        assert claimed not in page
    with pytest.raises(UsageError, match="already"):
        import_file(record, path, "mar5", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("a,b,c\n1,2,3\n", "neither"),
        (TSV.replace("\tkeep\tbaseline", "\tmaybe\tbaseline"), ":2:"),
        (TSV.replace("0.997900", "lots"), ":2: 'lots' is not a number"),
        (TSV.replace("0.997900", "nan"), "not finite"),
        ('{"type":"config"}\n{"run":1', ":2: not JSON"),
        ('{"run": 1, "metric": "x"}', "not a number"),
    ],
)
def test_a_file_in_no_format_names_the_line(
    arena: Callable[..., Path], spend: Any, tmp_path: Path, text: str, said: str
) -> None:
    record = spend(arena(), 1).workspace.record
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        import_file(record, path, "x", None)
    assert said in str(caught.value)
    assert [info.run for info in record.runs()] == ["night"]
