"""Figures of results."""

from fedcof.report.figures import accuracy_vs_communication

__all__ = ["accuracy_vs_communication"]
