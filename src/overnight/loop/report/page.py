"""The report of a run as one self-contained HTML file. Everything quoted is escaped; nothing is loaded or executed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from overnight.core.clock import format_duration, timestamp
from overnight.core.escape import html
from overnight.loop.record.experiment import Experiment, Finding
from overnight.loop.record.findings import number, signed

_DIFF_CHARACTERS = 200_000
_STYLE = """
:root{--bg:#fff;--ink:#1d2430;--dim:#667085;--line:#dfe3ea;--soft:#f5f7fa;--good:#12805c;--bad:#c4432b;--warn:#9a6700}
@media (prefers-color-scheme:dark){:root{--bg:#14181f;--ink:#e6e9ef;--dim:#98a2b3;--line:#2b3340;--soft:#1b212b;
--good:#4cc38a;--bad:#ff8b76;--warn:#e3b341}}
*{box-sizing:border-box} body{margin:0 auto;max-width:1040px;padding:32px 24px 80px;background:var(--bg);
color:var(--ink);font:15px/1.5 system-ui,sans-serif} h1{font-size:22px;margin:0 0 4px}
h2{font-size:16px;margin:36px 0 10px}
.dim{color:var(--dim)} .lead{font-size:18px;margin:14px 0 20px} .good{color:var(--good)} .bad{color:var(--bad)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(220px,1fr));gap:1px;background:var(--line);
border:1px solid var(--line);border-radius:8px;overflow:hidden;margin:18px 0}
.facts div{background:var(--bg);padding:10px 14px}
.facts b{display:block;font-size:17px;font-variant-numeric:tabular-nums} .facts span{color:var(--dim);font-size:12.5px}
svg{width:100%;height:auto;border:1px solid var(--line);border-radius:8px} ol li,ul li{margin:5px 0}
.read{background:var(--soft);border-left:3px solid var(--warn);padding:6px 18px;border-radius:0 8px 8px 0}
table{border-collapse:collapse;width:100%;font-size:13.5px} th{text-align:left;color:var(--dim);font-weight:500}
th,td{padding:5px 8px;border-bottom:1px solid var(--line);vertical-align:top} td.n{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums} tr.keep td{background:color-mix(in srgb,var(--good) 9%,transparent)}
td.said{overflow-wrap:anywhere} .v-keep{color:var(--good);font-weight:600} .v-crash,.v-timeout{color:var(--bad)}
.v-rejected{color:var(--warn)} pre{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:12px;
overflow:auto;font:12.5px/1.45 ui-monospace,monospace;margin:0} .add{color:var(--good)} .del{color:var(--bad)}
.at{color:var(--dim)} code{font:13px ui-monospace,monospace;background:var(--soft);padding:1px 5px;border-radius:4px}
"""


def page(
    result: Mapping[str, Any],
    experiments: Sequence[Experiment],
    findings: Sequence[Finding],
    reading: Sequence[str],
    chart: str,
    diff: str,
    taking_over: tuple[str, str, str] | None,
) -> str:
    """The whole page.

    Args:
        result: the report object.
        experiments: of the run, by number.
        findings: of the run, newest first.
        reading: what to read before merging.
        chart: SVG.
        diff: champion against baseline, unified.
        taking_over: how a person takes the champion over: text, command, text; None if there is nothing to.
    """
    title = f"{result['arena']} · {result['run']}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{html(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{html(str(result['arena']))}</h1>",
            f'<div class="dim">run {html(result["run"])} · {html(result["state"])}'
            f"{': ' + html(str(result['stopped'])) if result['stopped'] else ''}</div>",
            f'<p class="lead">{_verdict(result)}</p>',
            _facts(result),
            chart,
            "<h2>What a person should read before merging</h2>",
            f'<div class="read">{_list(reading, "ol")}</div>',
            _merge(taking_over),
            "<h2>What was learnt</h2>",
            _list([f"{item.text}" for item in findings], "ul") or "<p class=dim>Nothing was recorded.</p>",
            "<h2>Champion against baseline</h2>",
            _diff(diff),
            "<h2>Every experiment</h2>",
            _table(experiments),
            "<h2>How this was measured</h2>",
            _list(_method(result, experiments), "ul"),
            f'<p class="dim">Written {timestamp()} by Overnight. '
            "Hypotheses and errors are quoted as untrusted text.</p>",
            "</body></html>\n",
        ]
    )


def _merge(taking_over: tuple[str, str, str] | None) -> str:
    if taking_over is None:
        return ""
    before, command, after = map(html, taking_over)
    return f"<p>{before} <code>{command}</code>{after}</p>"


def _verdict(result: Mapping[str, Any]) -> str:
    metric, base, best = html(str(result["metric"])), number(result["baseline"]), number(result["best"])
    if result["state"] == "imported":
        return f"{metric} went from {base} to {best}, as an imported log says; nothing here was measured by Overnight."
    if result["experiments"] == 0:
        return "No experiment fitted into the budget: only the baseline was measured."
    if result["kept"] == 0:
        return f"Nothing was kept. {metric} stays at {base}; {result['experiments']} changes were tried."
    if result["gain"] is None:
        return f"{metric} went from {base} to {best}; the gain has not been measured afresh yet."
    low, high = signed(result["gain_low"]), signed(result["gain_high"])
    if result["mode"] == "deterministic":
        sure = "exact: the metric is the same each time"
    else:
        sure = f"95 % interval {low} … {high}, from {result['gain_pairs']} pairs on seeds that nobody used before"
    kind = "good" if result["gain_low"] > 0 else "bad"
    return f'{metric} went from {base} to <b class="{kind}">{best}</b>: a gain of {signed(result["gain"])} ({sure}).'


def _facts(result: Mapping[str, Any]) -> str:
    failed = result["crashed"] + result["timeouts"] + result["rejected"]
    cells = [
        (number(result["baseline"]), "baseline"),
        (number(result["best"]), f"best (experiment {result['best_n']})"),
        (signed(result["gain"]) if result["gain"] is not None else "–", "gain, measured afresh"),
        (f"{result['kept']} of {result['experiments']}", "experiments kept"),
        (str(failed), "crashed, timed out or rejected"),
        ("–" if result["seconds"] is None else format_duration(max(result["seconds"], 0.001)), "wall clock"),
        (str(result["integrity"]), "integrity of the evaluator"),
        (str(result["sandbox"]), "isolation"),
    ]
    return (
        '<div class="facts">'
        + "".join(f"<div><b>{html(a)}</b><span>{html(b)}</span></div>" for a, b in cells)
        + "</div>"
    )


def _list(lines: Sequence[str], kind: str) -> str:
    """Lines as a list; what stands between backticks as code, once it is harmless."""
    items = (re.sub(r"`([^`]+)`", r"<code>\1</code>", html(line)) for line in lines)
    return f"<{kind}>" + "".join(f"<li>{item}</li>" for item in items) + f"</{kind}>" if lines else ""


def _diff(diff: str) -> str:
    if not diff.strip():
        return '<p class="dim">They are the same.</p>'
    cut = diff[:_DIFF_CHARACTERS]
    rows = []
    for line in cut.splitlines():
        kind = "at" if line.startswith(("@@", "diff ", "index ", "---", "+++")) else ""
        kind = kind or {"+": "add", "-": "del"}.get(line[:1], "")
        text = html(line)
        rows.append(f'<span class="{kind}">{text}</span>' if kind else text)
    more = "" if len(cut) == len(diff) else f"\n… {len(diff) - len(cut):,} more characters; see git diff"
    return "<pre>" + "\n".join(rows) + more + "</pre>"


def _table(experiments: Sequence[Experiment]) -> str:
    rows = []
    for item in experiments:
        told = (
            item.hypothesis if item.status in ("keep", "discard", "baseline") else f"{item.hypothesis} — {item.reason}"
        )
        rows.append(
            f'<tr class="{item.status}"><td class="n">{item.n}</td><td class="v-{item.status}">{item.status}</td>'
            f'<td class="n">{number(item.metric)}</td><td class="n">{signed(item.delta)}</td>'
            f'<td class="n">{item.detail.get("runs", "") or ""}</td><td>{html(item.author)}</td>'
            f'<td class="said" title="{html(item.reason)}">{html(told)}</td>'
            f'<td class="n"><code>{html(item.commit[:8])}</code></td></tr>'
        )
    names = ("n", "verdict", "metric", "gain", "runs", "author", "hypothesis", "commit")
    head = "<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _method(result: Mapping[str, Any], experiments: Sequence[Experiment]) -> list[str]:
    if result["state"] == "imported":
        return [f"Nothing here was measured by Overnight: every line is as the log said it ({result['stopped']})."]
    base = next((item for item in experiments if item.n == 0), None)
    lines = [f"Baseline: {base.reason}."] if base else []
    if result["mode"] == "deterministic":
        lines.append("The metric is deterministic: a strictly better value is kept once a second measurement agrees.")
    else:
        lines.append(
            "The metric is noisy: challenger and champion are measured side by side on the same worker slot, on seeds "
            "no author can foresee, and a change is kept only if the lower bound of its gain exceeds the smallest "
            "effect. The error of that bound is spent over all challengers of the run (docs/judge.md)."
        )
    found = (item.detail["evidence"] for item in reversed(experiments) if item.detail.get("evidence"))
    evidence: Mapping[str, Any] = next(found, {})
    lines += [
        f"{name.replace('_', ' ')}: {evidence[name]}" for name in ("method", "schedule", "spending") if name in evidence
    ]
    lines.append(f"Evaluations ran in the sandbox `{result['sandbox']}`, integrity `{result['integrity']}`.")
    return lines
