"""Results as tables, figures and one page."""

from fedcof.report.figures import MB, Point, accuracy_vs_communication
from fedcof.report.names import METHOD_TITLES
from fedcof.report.tables import tabulate

__all__ = ["MB", "METHOD_TITLES", "Point", "accuracy_vs_communication", "tabulate"]
