"""A run folder as one self-contained page."""

from polytask.report.page import write_report

__all__ = ["write_report"]
