import onnx.parser
import pytest

from fedcof.backbones import Backbone, Preprocessing

MEAN_COLOR = """
<ir_version: 8, opset_import: ["" : 17]>
mean_color (float[n, 3, 4, 4] image) => (float[n, 3] features) {
    maps = GlobalAveragePool(image)
    features = Flatten(maps)
}
"""


class CountingBackbone(Backbone):
    """The mean colour of an image, and how many images were prepared for it."""

    prepared = 0

    def preprocess(self, image):
        self.prepared += 1
        return super().preprocess(image)


@pytest.fixture
def backbone():
    model = onnx.parser.parse_model(MEAN_COLOR).SerializeToString()
    plain = Preprocessing(size=4, mean=(0.0, 0.0, 0.0), scale=(1.0, 1.0, 1.0))
    return CountingBackbone(model, plain, name="mean-color")
