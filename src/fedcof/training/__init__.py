"""What may follow a head: federated linear probing, fine-tuning and prompt tuning.

The names here need no torch; what does is in `local` (a client's round), `probing` (many clients at
once), `batches` (images as a network takes them), `classifier`, `prompts`, `prompt_pool` (the
server's side of prompts) and `trained` (what comes out, as files). `heads` has the head at the
start and at the end. The rounds are in `rounds`; what carries them is an `exchange`.
"""

from fedcof.training.communication import pfpt_bytes, training_bytes
from fedcof.training.history import Round, best, load_history, save_history, tensorboard
from fedcof.training.rounds import train
from fedcof.training.settings import (
    Keep,
    Mode,
    TrainingGoal,
    TrainingSettings,
    check_mode,
    chosen_server_lr,
)
from fedcof.training.temperature import fit_temperature, scale

__all__ = [
    "Keep",
    "Mode",
    "Round",
    "TrainingGoal",
    "TrainingSettings",
    "best",
    "check_mode",
    "chosen_server_lr",
    "fit_temperature",
    "load_history",
    "pfpt_bytes",
    "save_history",
    "scale",
    "tensorboard",
    "train",
    "training_bytes",
]
