"""Results as tables, figures and one page."""

from fedcof.report.figures import MB, Point, accuracy_vs_communication
from fedcof.report.tables import METHOD_TITLES, tabulate

__all__ = ["MB", "METHOD_TITLES", "Point", "accuracy_vs_communication", "tabulate"]
