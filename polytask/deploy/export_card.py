"""What an exported model's README adds to that of the model it came from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def export_card(source: Path, document: Mapping[str, Any]) -> str:
    """The model's own card, if it has one, and what was compared when this form of it was written."""
    own = source / "README.md"
    text = own.read_text(encoding="utf-8", errors="replace") if own.is_file() else "# An exported model\n\n"
    return text.rstrip() + "\n\n" + "\n".join(_section(document))


def _section(document: Mapping[str, Any]) -> list[str]:
    form = {"onnx": "ONNX", "huggingface": "folders that `transformers` loads"}[document["to"]]
    weights = "int8 weights" if document["int8"] else "fp32 weights"
    lines = [
        f"## Exported as {form}, {weights}",
        "",
        f"Its answers were compared with the model's own before it was written, on {document['checked_on']}.",
        "",
    ]
    if document["tasks"]:
        lines += [
            "| task | rows | largest difference | same answers | metric | before | after |",
            "|---|---|---|---|---|---|---|",
        ]
    for name, check in document["tasks"].items():
        scores = [
            "" if check[key] is None else f"{check[key]:.4f}" for key in ("score_before", "score_after")
        ]
        cells = [
            *(
                name,
                f"{check['rows']:,}",
                f"{check['largest_difference']:.1e}",
                f"{check['same_answers']:.2%}",
            ),
            *(check["metric"], *scores),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    left_out = [f"- `{name}` has no classifier: {why}." for name, why in document.get("left_out", {}).items()]
    return [*lines, "", *left_out, *([""] if left_out else [])]
