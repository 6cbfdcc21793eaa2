"""The stages of the capstone, one file each, in the order in which a GPT is built. The last is the star."""

from .attention import attention
from .block import block
from .cache import cache
from .embedding import embedding
from .generation import generation
from .loss import loss
from .model import model
from .stage import Stage
from .tokenizer import tokenizer
from .training import training
from .weights import shipped, weights

_IN_ORDER = (
    tokenizer, embedding, attention, block, model, loss, training, generation, cache, weights, shipped,
)  # fmt: skip
STAGES: dict[str, Stage] = {stage.name: stage for stage in _IN_ORDER}

__all__ = ["STAGES", "Stage"]
