"""Images, their partition into clients, and the cache of their features."""

from fedcof.data.cache import ImageFeatures, extract_features, stream_features
from fedcof.data.dealing import (
    ByColumn,
    Central,
    ClassWise,
    Dealing,
    Dirichlet,
    Iid,
    dealings,
    get_dealing,
)
from fedcof.data.fashion_mnist import fashion_mnist
from fedcof.data.folders import image_folder
from fedcof.data.images import ImageSet, ImageSource, Windowed, read_image
from fedcof.data.left_out import LeftOut
from fedcof.data.partition import (
    Partition,
    PartitionStatistics,
    by_column,
    describe_partition,
    dirichlet,
    hsu_dirichlet,
    iid,
)
from fedcof.data.pixels import Window
from fedcof.data.reading import OwnData, Reading, read
from fedcof.data.tables import FeatureTable

__all__ = [
    "ByColumn",
    "Central",
    "ClassWise",
    "Dealing",
    "Dirichlet",
    "FeatureTable",
    "Iid",
    "ImageFeatures",
    "ImageSet",
    "ImageSource",
    "LeftOut",
    "OwnData",
    "Partition",
    "PartitionStatistics",
    "Reading",
    "Window",
    "Windowed",
    "by_column",
    "dealings",
    "describe_partition",
    "dirichlet",
    "extract_features",
    "fashion_mnist",
    "get_dealing",
    "hsu_dirichlet",
    "iid",
    "image_folder",
    "read",
    "read_image",
    "stream_features",
]
