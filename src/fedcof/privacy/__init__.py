"""What protects those whose data it is: steps on a summary, noise, sums that show no client."""

from fedcof.privacy.count_noise import CountNoise
from fedcof.privacy.sums import Arrays, Layout, Sums, sums_of

__all__ = ["Arrays", "CountNoise", "Layout", "Sums", "sums_of"]
