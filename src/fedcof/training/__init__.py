"""What may follow a head: federated linear probing, fine-tuning and prompt tuning, in torch."""

from fedcof.training.communication import pfpt_bytes, training_bytes
from fedcof.training.history import Round, load_history, rounds_to_reach, save_history, tensorboard
from fedcof.training.local import (
    Samples,
    State,
    Task,
    Update,
    accuracy,
    get_state,
    local_update,
    outputs,
    set_state,
    update_clients,
)
from fedcof.training.models import (
    Classifier,
    Images,
    TorchBackbone,
    check_head,
    from_transformers,
    head_of,
    random_head,
    squeezenet,
)
from fedcof.training.probing import probe_clients
from fedcof.training.prompt_pool import aggregate_prompts
from fedcof.training.prompts import PromptedViT
from fedcof.training.settings import TrainingSettings
from fedcof.training.temperature import fit_temperature, scale

__all__ = [
    "Classifier",
    "Images",
    "PromptedViT",
    "Round",
    "Samples",
    "State",
    "Task",
    "TorchBackbone",
    "TrainingSettings",
    "Update",
    "accuracy",
    "aggregate_prompts",
    "check_head",
    "fit_temperature",
    "from_transformers",
    "get_state",
    "head_of",
    "load_history",
    "local_update",
    "outputs",
    "pfpt_bytes",
    "probe_clients",
    "random_head",
    "rounds_to_reach",
    "save_history",
    "scale",
    "set_state",
    "squeezenet",
    "tensorboard",
    "training_bytes",
    "update_clients",
]
