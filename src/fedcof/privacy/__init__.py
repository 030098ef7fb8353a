"""What protects those whose data it is: steps on a summary, noise, sums that show no client."""

from fedcof.privacy.sums import Arrays, Layout, Sums, sums_of

__all__ = ["Arrays", "Layout", "Sums", "sums_of"]
