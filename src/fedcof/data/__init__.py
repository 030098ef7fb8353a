"""Images, their partition into clients, and the cache of their features."""

from fedcof.data.cache import ImageFeatures, UnreadableImageWarning, extract_features
from fedcof.data.fashion_mnist import fashion_mnist
from fedcof.data.images import (
    ImageSet,
    ImageSource,
    UnreadableImageError,
    image_folder,
    read_image,
)
from fedcof.data.partition import Partition, by_column, dirichlet, iid

__all__ = [
    "ImageFeatures",
    "ImageSet",
    "ImageSource",
    "Partition",
    "UnreadableImageError",
    "UnreadableImageWarning",
    "by_column",
    "dirichlet",
    "extract_features",
    "fashion_mnist",
    "iid",
    "image_folder",
    "read_image",
]
