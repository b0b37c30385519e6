"""The pages that a browser gets: self-contained, and under a policy that allows nothing from outside."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Page:
    """A page and the headers that it is sent with."""

    html: bytes
    headers: Mapping[str, str]


@cache
def playground() -> Page:
    """The page at `/`."""
    return _page(_read("playground.html"))


def docs_page(schema: Mapping[str, Any]) -> Page:
    """The OpenAPI as a page to read."""
    parts = []
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            replies = "".join(
                f"<tr><td>{escape(status)}</td><td>{escape(reply['description'])}</td></tr>"
                for status, reply in operation["responses"].items()
            )
            parts.append(
                f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
                f"<p>{escape(operation['summary'])}</p><table>{replies}</table>"
                f"{_body(operation)}</section>"
            )
    documents = "".join(
        f"<details><summary>{escape(name)}</summary><pre>{_shown(document)}</pre></details>"
        for name, document in schema.get("components", {}).get("schemas", {}).items()
    )
    return _page(_read("docs.html").replace("<!-- operations -->", "".join(parts) + documents))


def _body(operation: Mapping[str, Any]) -> str:
    if "requestBody" not in operation:
        return ""
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return f"<details><summary>Body</summary><pre>{_shown(schema)}</pre></details>"


def _shown(document: object) -> str:
    return escape(json.dumps(document, indent=2, ensure_ascii=False))


def _page(html: str) -> Page:
    """The page under a policy that names its own style and script by their digests."""
    scripts, styles = (_digests(html, tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page(
        html.encode(), {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy}
    )


def _digests(html: str, tag: str) -> str:
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in found]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"


def _read(name: str) -> str:
    return (files("polytask.deploy.serve") / name).read_text(encoding="utf-8")
