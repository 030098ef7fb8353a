import onnx.parser
import pytest

from fedcof.backbones import Backbone, Preprocessing

MEAN_COLOR = """
<ir_version: 8, opset_import: ["" : 17]>
mean_color (float[n, 3, s, t] image) => (float[n, 3] features) {
    maps = GlobalAveragePool(image)
    features = Flatten(maps)
}
"""


class CountingBackbone(Backbone):
    """The mean colour of an image, and of how many images it was computed."""

    computed = 0

    def stream(self, batches):
        for features in super().stream(batches):
            self.computed += len(features)
            yield features


@pytest.fixture
def make_backbone():
    def make(size=4, mean=(0.0, 0.0, 0.0), **options):
        model = onnx.parser.parse_model(MEAN_COLOR).SerializeToString()
        plain = Preprocessing(size=size, mean=mean, scale=(1.0, 1.0, 1.0), **options)
        return CountingBackbone(model, plain, name="mean-color")

    return make


@pytest.fixture
def backbone(make_backbone):
    return make_backbone()
