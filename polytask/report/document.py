"""A page as one HTML file that fetches nothing: its head, its charts and what draws them."""

import base64
import hashlib
import json
from html import escape
from types import ModuleType
from typing import Any, final

from polytask.report.scripts import BROWSE, DRAW
from polytask.report.style import CHART_CONFIG, CSS

NO_CHARTS = (
    '<p class="hint">This page has no charts. To add them: '
    "<code>pip install 'polytask[report]'</code>, then <code>polytask report</code> and this folder.</p>"
)


def _charts() -> tuple[ModuleType, ...]:
    """The modules that draw; none where the extra `report` is not installed."""
    try:
        from polytask.report import answer_charts, charts, comparison_charts, conflict_charts, heatmap
    except ModuleNotFoundError as error:
        if error.name not in ("altair", "vl_convert"):
            raise
        return ()
    return charts, heatmap, answer_charts, conflict_charts, comparison_charts


@final
class Document:
    """A page in the making; collects the charts that its sections place."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.charts = _charts()
        self.specs: list[dict[str, Any]] = []
        self.headings: list[str] = []

    def html(self, subtitle: str, first: str, sections: str, last: str = "") -> str:
        """A page with these parts, and whatever the charts placed in them need."""
        title = escape(self.title)
        scripts = self.scripts(sections)
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts)}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title} · polytask</title><style>{CSS}</style></head><body><main>"
            f"<header><h1>{title}</h1><p>{escape(subtitle)}</p></header>{self.contents()}"
            f"{first}{'' if self.charts else NO_CHARTS}{sections}"
            f"<footer>Written by polytask. {last}</footer></main>"
            f"{self.data()}{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>\n"
        )

    def heading(self, title: str) -> str:
        """The heading of a section, which the page's list of sections leads to."""
        self.headings.append(title)
        return f'<h2 id="{_anchor(title)}">{escape(title)}</h2>'

    def contents(self) -> str:
        """The list of sections."""
        links = "".join(f'<a href="#{_anchor(title)}">{escape(title)}</a>' for title in self.headings)
        return f'<nav aria-label="Sections">{links}</nav>' if len(self.headings) > 1 else ""

    def place(self, chart: str, *given: Any) -> str:
        """Where the chart of that name is drawn; nothing if there is nothing to draw."""
        drawing = next((getattr(each, chart) for each in self.charts if hasattr(each, chart)), None)
        spec = drawing(*given) if drawing is not None else None
        if spec is None:
            return ""
        self.specs.append(spec)
        label = escape(spec["description"])
        return f'<div class="chart" data-chart="{len(self.specs) - 1}" role="img" aria-label="{label}"></div>'

    def data(self) -> str:
        """The charts' specifications, in a form that no text inside can end early."""
        if not self.specs:
            return ""
        values = {"config": CHART_CONFIG, "charts": self.specs}
        text = json.dumps(values, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        for sign in "<>&":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        return f'<script type="application/json" id="charts">{text}</script>'

    def scripts(self, sections: str) -> list[str]:
        """What draws the charts and searches the errors; nothing where there are none."""
        browse = [BROWSE] if "data-errors" in sections else []
        if not self.charts or not self.specs:
            return browse
        return [*browse, self.charts[0].script().replace("</script", "<\\/script"), DRAW]


def key(marks: list[tuple[str, str]], shape: str = "line") -> str:
    """What the colours of a chart stand for; in HTML, because a legend inside a chart cannot wrap."""
    spans = "".join(f'<span><i class="{shape} {name}"></i>{escape(says)}</span>' for name, says in marks)
    return f'<p class="key">{spans}</p>'


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def policy(scripts: list[str]) -> str:
    """A content security policy: these scripts and no others, and nothing from outside."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'"
