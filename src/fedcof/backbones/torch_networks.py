"""The networks of torch that serve as backbones, up to their features."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedcof.backbones.backbone import BackboneError

State = Mapping[str, Tensor]


class Pooled(nn.Module):
    """A model of transformers that gives one feature an image.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    first_token : bool
        Whether the feature is a ViT's class token rather than the average over positions.
    """

    def __init__(self, model: nn.Module, *, first_token: bool) -> None:
        super().__init__()
        self.model = model
        self.first_token = first_token

    def forward(self, images: Tensor) -> Tensor:
        """Return the features (n, dim) of images (n, 3, size, size)."""
        output = self.model(pixel_values=images)
        feature: Tensor = (
            output.last_hidden_state[:, 0] if self.first_token else output.pooler_output
        )
        return feature.flatten(1)


def read_checkpoint(path: Path) -> State:
    """Read the tensors of a torch checkpoint; nothing in it is run.

    Raises
    ------
    BackboneError
        If it is no file of tensors.
    """
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever it meets in a damaged file
        raise BackboneError(f"{path} is no torch checkpoint of tensors alone: {error}") from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(t, Tensor) for t in state.values()):
        raise BackboneError(f"{path} is no state_dict: expected a mapping of names to tensors")
    return state


def mobilenet_v2(state: State) -> nn.Module:
    """Return MobileNetV2 with weights in torchvision's order [1]_; a classifier is left out.

    References
    ----------
    .. [1] Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018.
    """
    from transformers import MobileNetV2Config, MobileNetV2Model

    # As torchvision has it, not as TensorFlow.
    model = MobileNetV2Model(MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5))
    features = [tensor for name, tensor in state.items() if not name.startswith("classifier.")]
    return Pooled(_fill(model, features), first_token=False)


def _fill(model: nn.Module, tensors: list[Tensor]) -> nn.Module:
    """Give a network the tensors of a twin whose layers come in the same order."""
    own = model.state_dict()
    have, want = [tensor.shape for tensor in tensors], [tensor.shape for tensor in own.values()]
    if have != want:
        raise BackboneError(
            f"the checkpoint's {len(have)} tensors are not the {len(want)} of the network, in its "
            "order and shapes"
        )
    model.load_state_dict(dict(zip(own, tensors, strict=True)))
    return model
