"""How the page and its charts look, in light, in dark, on a narrow screen and on paper."""

from typing import Any

from polytask.report.words import NUM_COLOURS

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

LIGHT = """--page: #f6f7f9; --card: #ffffff; --ink: #1a1f27; --muted: #5d6673; --line: #e1e5ea;
  --mark: #98a1ad;
  --model: #0b6bb0; --baseline: #d97706; --floor: #8b95a1; --good: #00724f; --bad: #b8440a;
  --warn: #fff6e5; --warn-line: #f0d59b;
  --task0: #0b6bb0; --task1: #e69f00; --task2: #009e73; --task3: #cc79a7;
  --task4: #56b4e9; --task5: #d55e00; --task6: #8b95a1; --task7: #a89b14;"""

PRINTED_ERRORS = 12  # of a task
COLOURS = ("model", "baseline", "floor", *(f"task{number}" for number in range(NUM_COLOURS)))
KEYS = "\n".join(f".key i.{name} {{ color: var(--{name}); }}" for name in COLOURS)

SHADES = "\n".join(
    f".matrix td.s{share} {{ background: color-mix(in srgb, var(--of) {6 + 6 * share}%, transparent); }}"
    for share in range(1, 11)
)

# Okabe and Ito's colours, which people of any colour vision tell apart, made a little lighter on dark
CSS = (
    """
:root {
  color-scheme: light dark;
  LIGHT
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1317; --card: #171c22; --ink: #e8ebef; --muted: #9aa5b1; --line: #2a313a; --mark: #697481;
    --model: #58aeea; --baseline: #f0a030; --floor: #8b95a1; --good: #4cc79c; --bad: #f2935c;
    --warn: #2b2415; --warn-line: #5c4a1d;
    --task0: #4a9fe0; --task1: #e6a817; --task2: #2bb58c; --task3: #d68fb8;
    --task4: #8accf2; --task5: #e8743b; --task6: #8b95a1; --task7: #c4b731;
  }
}
@media print {
  :root {
    color-scheme: light;
    LIGHT
    --page: #ffffff; --ink: #000000; --muted: #444b55; --warn: #ffffff; --warn-line: #bbbbbb;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.55 FONT; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
header p { margin: 4px 0 0; color: var(--muted); }
h1 { margin: 0; font-size: 28px; line-height: 1.2; font-weight: 650; letter-spacing: -0.015em; }
h1, h3, header p, .tile span, td:first-child { overflow-wrap: anywhere; }
h2 { margin: 44px 0 14px; font-size: 19px; font-weight: 650; letter-spacing: -0.01em; }
h3 { margin: 0; font-size: 15px; font-weight: 650; }
p.says { margin: 2px 0 10px; color: var(--muted); font-size: 13px; }
.tiles { display: grid; gap: 14px; margin-top: 26px; }
.tiles { grid-template-columns: repeat(auto-fit, minmax(168px, 1fr)); }
.tile, .card { min-width: 0; background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.tile { padding: 14px 18px 15px; }
.tile span { display: block; color: var(--muted); font-size: 13px; }
.tile b { display: block; font-size: clamp(20px, 2.1vw, 26px); line-height: 1.3; font-weight: 650; }
.tile b { letter-spacing: -0.02em; white-space: nowrap; }
.tile b { font-variant-numeric: tabular-nums; }
.tile:first-child b { color: var(--model); }
.card { padding: 18px 20px; }
.card + .card, .grid + .card, .card + .grid { margin-top: 14px; }
.grid:empty { display: none; }
.grid { display: grid; gap: 14px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
.grid.small { grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 1fr)); }
.grid > .card { margin: 0; }
.missing { margin-top: 22px; padding: 12px 18px; border: 1px solid var(--warn-line); border-radius: 12px; }
.missing { background: var(--warn); }
.missing ul { margin: 4px 0 0; padding-left: 20px; }
.hint { color: var(--muted); }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th { color: var(--muted); font-weight: 500; font-size: 13px; text-align: left; vertical-align: bottom; }
th, td { padding: 8px 14px 8px 0; border-bottom: 1px solid var(--line); }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; white-space: nowrap; }
td:first-child { font-weight: 550; min-width: 7em; width: 28%; }
td.strong { font-weight: 650; }
.good { color: var(--good); } .bad { color: var(--bad); }
p.says:last-child { margin: 12px 0 0; }
.chart { width: 100%; min-width: 0; }
.chart.vega-embed { display: block; padding: 0; }
.chart svg { display: block; max-width: 100%; height: auto; overflow: visible; }
.key { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 0 0 12px; }
.key { color: var(--muted); font-size: 13px; }
.key i { display: inline-block; width: 22px; height: 0; margin-right: 7px; vertical-align: middle; }
.key i { border-top: 3px solid; }
.key i.box { width: 11px; height: 11px; border: 0; border-radius: 3px; background: currentColor; }
.key i.dashed { border-top: 2px dashed; }
.key i.faint { border-top-width: 1px; opacity: 0.5; }
.key span { overflow-wrap: anywhere; }
KEYS
.card .label { margin: 12px 0 2px; color: var(--muted); font-size: 12px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-top: 14px; font-size: 13px; }
nav a { color: var(--model); text-decoration: none; }
nav a:hover { text-decoration: underline; }
ul.findings { margin: 18px 0 0; padding: 2px 0 2px 14px; list-style: none; }
ul.findings { border-left: 3px solid var(--model); }
ul.findings li { margin: 3px 0; }
h4 { margin: 0; font-size: 14px; font-weight: 650; }
h4 + :not(p) { margin-top: 8px; }
.after, .stack .card + .card { margin-top: 14px; }
.stack .card { margin: 0; }
details.part { margin-top: 14px; padding-top: 14px; border-top: 1px solid var(--line); }
h2 + details.part { border-top: 0; padding-top: 0; }
details.part > summary { margin-bottom: 12px; }
details.part > summary h3 { display: inline; margin-right: 10px; font-size: 16px; }
details.part > summary span { color: var(--muted); font-size: 13px; font-weight: 400; }
table.matrix { width: auto; min-width: min(100%, 320px); border-collapse: separate; border-spacing: 3px; }
.matrix th, .matrix td { padding: 0; border: 0; text-align: center; min-width: 40px; height: 34px; }
.matrix thead th { vertical-align: bottom; padding: 0 4px 4px; }
.matrix tbody th { vertical-align: middle; padding-right: 8px; text-align: right; }
.matrix tbody th { color: var(--ink); white-space: nowrap; }
.matrix.upright thead span { white-space: nowrap; writing-mode: vertical-rl; transform: rotate(180deg); }
.matrix td { border-radius: 5px; font-weight: 400; width: auto; }
.matrix td:first-child { min-width: 40px; width: auto; }
.matrix td.none { color: var(--mark); }
.matrix td.sum, .matrix th:last-child { color: var(--muted); padding-left: 8px; text-align: right; }
.matrix td.right { --of: var(--model); } .matrix td.wrong { --of: var(--baseline); }
SHADES
.matrix button { width: 100%; height: 100%; padding: 0; border: 0; border-radius: 5px; background: none; }
.matrix button { color: inherit; font: inherit; cursor: pointer; }
.matrix button:hover { outline: 2px solid var(--ink); }
:focus-visible { outline: 2px solid var(--model); outline-offset: 2px; }
.scroll.tall { max-height: 520px; overflow-y: auto; }
.scroll.tall thead th { position: sticky; top: 0; background: var(--card); }
table.facts td:first-child { width: auto; font-weight: 400; }
table.errors { font-size: 13px; }
.errors td { vertical-align: top; }
.errors td.text { width: auto; min-width: 16em; font-weight: 400; }
.errors p { margin: 0; overflow-wrap: anywhere; white-space: pre-line; }
.errors p + p { margin-top: 4px; padding-top: 4px; border-top: 1px dashed var(--line); }
.errors td.wrong { color: var(--bad); }
.errors td.id { max-width: 7em; color: var(--muted); }
.errors td.id span { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.controls { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 0 0 12px; }
.controls[hidden] { display: none; }
.controls input, .controls select { min-width: 0; max-width: 100%; padding: 5px 9px; }
.controls input, .controls select { border: 1px solid var(--line); border-radius: 7px; }
.controls input, .controls select { background: var(--page); color: var(--ink); font: 13px/1.4 FONT; }
.controls input { flex: 1 1 180px; }
.controls output { color: var(--muted); font-size: 13px; }
details summary { cursor: pointer; font-weight: 550; }
pre { margin: 14px 0 0; overflow-x: auto; }
pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
footer { margin-top: 44px; color: var(--muted); font-size: 13px; }
#vg-tooltip-element.vg-tooltip { background: var(--card); color: var(--ink); border: 1px solid var(--line);
  border-radius: 8px; font: 13px/1.4 FONT;
  box-shadow: 0 4px 16px rgb(0 0 0 / 0.18); }
#vg-tooltip-element.vg-tooltip table tr td { color: var(--ink); border: 0; padding: 1px 6px; }
#vg-tooltip-element.vg-tooltip table tr td.key { color: var(--muted); }
@media (max-width: 600px) {
  main { padding: 24px 14px 40px; }
  h1 { font-size: 23px; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 10px; }
  .tile:last-child:nth-child(odd) { grid-column: 1 / -1; }
  th, td { padding-right: 10px; } th.n { white-space: normal; }
  .tile { padding: 11px 14px; } .tile b { font-size: 21px; }
  .card { padding: 14px; }
  .scroll.tall { max-height: 70vh; }
  .errors thead { display: none; }
  .errors tr { display: block; padding: 10px 0; border-bottom: 1px solid var(--line); }
  .errors td, .errors td.text { display: block; width: auto; min-width: 0; max-width: none; }
  .errors td { padding: 0; border: 0; text-align: left; white-space: normal; }
  .errors td:not(.text)::before { content: attr(data-head) ": "; color: var(--muted); }
  .errors td:not(.text) { display: inline-block; margin: 3px 14px 0 0; }
  .errors td.id span { display: inline; }
  .errors tr[hidden] { display: none; }
}
p.printed { display: none; }
/* charts are drawn again in about this width before printing */
body.printing main { width: 720px; padding: 0; }
body.printing .grid { grid-template-columns: 1fr 1fr; }
body.printing .grid.small { grid-template-columns: 1fr 1fr 1fr; }
body.printing .card { padding: 12px; }
@media print {
  body { font-size: 12px; } main { max-width: none; padding: 0; }
  .tiles { grid-template-columns: repeat(5, minmax(0, 1fr)); gap: 8px; }
  .tile { padding: 8px 10px; } .tile b { font-size: 16px; }
  .grid { grid-template-columns: 1fr 1fr; } .grid.small { grid-template-columns: 1fr 1fr 1fr; }
  .card { padding: 12px; } h2 { margin-top: 26px; }
  .card, .tile, tr { break-inside: avoid; } h2, h3, h4, .key, .says { break-after: avoid; }
  p.says:last-child { break-after: auto; } footer { margin-top: 12px; }
  .scroll, .scroll.tall { overflow: visible; max-height: none; }
  nav, .controls { display: none; } .matrix td { print-color-adjust: exact; }
  .key i, .tile { print-color-adjust: exact; } .scroll.tall thead th { position: static; }
  table.errors { font-size: 10px; } .errors tr:nth-child(n + AFTER) { display: none; }
  p.printed { display: block; }
  .after[data-errors] { break-inside: auto; } .matrix, .matrix th { font-size: 10px; }
  .matrix th, .matrix td, .matrix td:first-child { min-width: 28px; height: 26px; }
  body.printing main { width: auto; }
  .errors td.text { min-width: 0; } .errors td { padding: 4px 8px 4px 0; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
}
""".replace("FONT", FONT)
    .replace("LIGHT", LIGHT)
    .replace("KEYS", KEYS)
    .replace("SHADES", SHADES)
    .replace("AFTER", str(PRINTED_ERRORS + 1))
)

# Given once to every chart; colours are the page's own, so that a chart changes with the page
CHART_CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": FONT,
    "autosize": {"type": "fit-x", "contains": "padding"},
    "padding": {"left": 0, "right": 12, "top": 6, "bottom": 2},
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)",
        "titleColor": "var(--muted)",
        "domainColor": "var(--line)",
        "gridColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelLimit": 150,
        "labelOverlap": True,
    },
    "axisX": {"grid": False, "labelSeparation": 8},
    "axisY": {"domain": False, "ticks": False, "labelPadding": 8},
}
