"""Networks small enough to train in a test, in the format of transformers."""

import torch


def save_vit(folder, *, layers=2, patch_size=8):
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=patch_size,
    )
    torch.manual_seed(0)
    ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def save_resnet(folder):
    from transformers import ConvNextImageProcessor, ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
    torch.manual_seed(0)
    ResNetModel(config).save_pretrained(folder)
    ConvNextImageProcessor(size={"shortest_edge": 32}, crop_pct=1.0).save_pretrained(folder)
    return folder
