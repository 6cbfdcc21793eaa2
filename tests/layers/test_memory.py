"""Tests how NumPy's arrays lie in memory, where it decides how long a product or a training step takes."""

import subprocess
import sys

import numpy as np
from close import SINGLE, assert_close

from glassformer import scratch
from glassformer.config import ModelConfig
from glassformer.generate import generate

CONFIG = ModelConfig(vocab_size=33, context_length=16, d_model=8, n_layers=2, n_heads=2)

# Prints how many pages of memory the system has to provide for each step.
STEPS = """
import resource
import numpy as np
from glassformer import scratch
from glassformer.config import ModelConfig

config = ModelConfig(vocab_size=65, context_length=64, d_model=128, n_layers=2, n_heads=4)
model = scratch.Transformer(config, generator=np.random.default_rng(0))
ids = np.zeros((12, 64), int)

def step():
    saved = []
    logits = model(ids, saved=saved)
    model.backward(scratch.cross_entropy_backward(logits, ids), saved)
    model.zero_gradients()

for _ in range(2):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 5)
"""


def test_a_step_uses_the_memory_of_the_step_before():
    run = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 100  # of thousands


def test_a_model_to_be_loaded_has_the_longer_axis_of_every_matrix_last_in_memory():
    drawn = scratch.Transformer(CONFIG, generator=np.random.default_rng(0)).eval()
    loaded = scratch.Transformer(CONFIG, generator=None).eval()
    loaded.load_state_dict(drawn.state_dict())
    for name, weight in loaded.named_parameters().items():
        assert (
            weight.flags.f_contiguous if weight.shape[0] > weight.shape[-1] else weight.flags.c_contiguous
        ), name
        np.testing.assert_array_equal(weight, drawn.named_parameters()[name])
    for weight in loaded.state_dict().values():  # what is saved is in the order of the axes
        assert weight.flags.c_contiguous
    ids = np.arange(12)
    assert_close(loaded(ids), drawn(ids), SINGLE)
    np.testing.assert_array_equal(*(generate(one, ids, 4, temperature=0)[0] for one in (loaded, drawn)))
