"""The models of the papers, and a factory by name.

Every model is a plain ``torch.nn.Module`` that computes ``head(backbone(inputs))``, so that its parts can be named by
child; `SplitModel` has more parts, behind any backbone. Any other module works as well.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab._base.typing import Embedded as Embedded
    from graphcollab.models.backbones import small_backbones as small_backbones
    from graphcollab.models.catalog import MODELS as MODELS
    from graphcollab.models.classifiers import CNN as CNN, MLP as MLP
    from graphcollab.models.layers import replace_batch_norm as replace_batch_norm
    from graphcollab.models.split_model import SplitModel as SplitModel, split_models as split_models

__all__ = make_lazy(__name__)
