"""What protects those whose data it is: what a site lets out, noise, sums that show no client."""

from fedcof.privacy.count_noise import CountNoise
from fedcof.privacy.differential import CentralPrivacy, SimulatedNoise, private_sums
from fedcof.privacy.ledger import Budget, Ledger
from fedcof.privacy.local import LocalPrivacy
from fedcof.privacy.policy import OPEN, Guarantee, Policy, Protected, read_policy
from fedcof.privacy.site import MinSamples
from fedcof.privacy.sums import Arrays, Layout, Sums, sums_of

__all__ = [
    "OPEN",
    "Arrays",
    "Budget",
    "CentralPrivacy",
    "CountNoise",
    "Guarantee",
    "Layout",
    "Ledger",
    "LocalPrivacy",
    "MinSamples",
    "Policy",
    "Protected",
    "SimulatedNoise",
    "Sums",
    "private_sums",
    "read_policy",
    "sums_of",
]
