"""Computes how much memory a run needs before any is allocated."""

import torch

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.train.config import TrainingConfig
from glassformer.train.processes import device_of, world

A_BLOCK = 20_000  # bytes of Python objects besides the weights, of a block or an expert
A_ROW = 100  # bytes that locate the source of one row of a batch


def check_memory(config: ModelConfig, training: TrainingConfig) -> None:
    """Checks that the run fits in the memory of the machine and of the device that it uses.

    Raises:
        ValueError: it needs more. The message names the largest part that could be made smaller.
    """
    device = device_of(training.device)
    there = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None
    n_weights = config.parameter_count().total
    n_blocks = 0
    for n_layers in (config.n_layers, config.n_decoder_layers or 0):
        for layer, n in config.layers(n_layers).values():
            experts = layer.feedforward.experts
            n_blocks += n * (1 if experts is None else 1 + experts.n_experts)
    checks.fits(f"a model of {n_weights:.3g} parameters", 4 * n_weights + A_BLOCK * n_blocks)
    weights = bytes_of_weights(n_weights, training)
    checks.fits(f"to train a model of {n_weights:.3g} parameters", weights, there)
    checks.fits(
        f"batch_size={training.batch_size}", training.batch_size * (A_ROW + 8 * config.context_length)
    )
    checks.fits(
        f"batch_size={training.batch_size} in pieces of {piece_of(training)}",
        weights + piece_of(training) * bytes_of_a_text(config, training),
        there,
    )


def bytes_of_weights(n_weights: int, training: TrainingConfig) -> int:
    """Returns the bytes of the weights, their gradients, the optimizer's state and the average, all in float32."""
    remembered = 2 if training.optimizer == "adamw" else 1  # Muon keeps one number for most weights
    return 4 * n_weights * (2 + remembered + (training.ema is not None))


def bytes_of_a_text(config: ModelConfig, training: TrainingConfig) -> int:
    """Returns the bytes that the forward pass must save for the backward pass, at least, for a text of maximal length.

    It counts the input, q, k, v and the hidden layer of each block, and the logits and their gradient at the
    end.
    """
    saved = 2 * config.vocab_size
    for n_layers in (config.n_layers, config.n_decoder_layers or 0):
        for layer, n in config.layers(n_layers).values():
            network = layer.feedforward
            hidden = network.d_ff if layer.n_sublayers == 2 else 0
            if network.experts is not None:  # also what each expert reads and returns
                hidden = network.experts.d_shared + network.experts.top_k * (hidden + 2 * config.d_model)
            saved += n * (4 * config.d_model + hidden)
    return (2 if training.dtype == "bfloat16" else 4) * config.context_length * saved


def piece_of(training: TrainingConfig) -> int:
    """Returns how many texts go through the model at once."""
    return max(1, training.batch_size // (training.accumulation * world()))
