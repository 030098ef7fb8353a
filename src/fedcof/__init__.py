"""Training-free federated learning: one round of class means, a closed-form classifier."""

__version__ = "0.1.0"
