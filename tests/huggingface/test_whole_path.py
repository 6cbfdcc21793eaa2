"""Tests the whole path of chapter 13, offline: folder, text, ids, logits, ids, text, for four families and two rooms.

Transformers takes the same path from the same folder, with its own tokenizer. All is computed in float64, so that
rounding does not matter.
"""

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from glassformer import huggingface
from glassformer.generate import generate
from glassformer.text import BytePairTokenizer, corpus

from .models import both_rooms, make

LINE = "A horse! a horse! my kingdom for a horse!"
VOCABULARY, N_NEW = 300, 20
# GPT-2 small's depth, the heads of TinyLlama, BERT base and T5 small; narrow. Weights so large that a text is no loop
FAMILIES = {
    "gpt2-untied": ({"n_layer": 12, "n_head": 12, "n_embd": 48}, {"bias": 0.05, "": 0.3}),
    "llama": (
        {"num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 4, "hidden_size": 64},
        {"": 0.2},
    ),
    "bert-mlm": (
        {"num_hidden_layers": 4, "num_attention_heads": 12, "hidden_size": 48},
        {"output.dense": 0.02, "bias": 0.01, "": 0.2},
    ),
    "t5": (
        {"num_layers": 3, "num_decoder_layers": 3, "num_heads": 8},
        {"relative": 4.0, "Attention.q.": 0.2, "Attention.o.": 1.0, "": 0.35},
    ),
}


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairTokenizer.from_text(corpus()[:20_000], vocab_size=VOCABULARY)


@pytest.fixture(scope="module", params=FAMILIES)
def theirs(request):
    changes, sizes = FAMILIES[request.param]
    return make(request.param, torch.float64, "sdpa", sizes, vocab_size=VOCABULARY, **changes)


@pytest.fixture(scope="module")
def folder(theirs, tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("published")
    theirs.save_pretrained(path)
    (path / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def their_text(theirs, folder):
    """Returns what transformers makes of the line: a continuation; filled-in masks for BERT; an answer for T5."""
    reader = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    ids = torch.tensor([reader(LINE)["input_ids"]])
    with torch.no_grad():
        if theirs.config.model_type == "bert":
            written = theirs(input_ids=ids).logits[0].argmax(dim=-1)
        else:
            asked = {"attention_mask": torch.ones_like(ids), "pad_token_id": 0, "eos_token_id": None}
            written = theirs.generate(ids, do_sample=False, max_new_tokens=N_NEW, **asked)[0][-N_NEW:]
    assert len(written.unique()) > 5  # no loop of a few ids
    return reader.decode(written, clean_up_tokenization_spaces=False)


@both_rooms
@torch.no_grad()
def test_from_a_folder_to_a_text(theirs, folder, their_text, room):
    reader = huggingface.tokenizer(folder)
    ids = np.array(reader.encode(LINE).ids)
    assert reader.decode(ids) == LINE
    model = huggingface.load(folder, room=room, dtype="float64")
    match theirs.config.model_type:
        case "bert":
            logits = model(torch.tensor(ids[None]) if room == "nn" else ids[None])
            written = np.asarray(logits)[0].argmax(axis=-1)
        case "t5":
            [written] = generate(model, None, N_NEW, source=ids, temperature=0)
        case _:
            [written] = generate(model, ids, N_NEW, temperature=0)
            assert written[: len(ids)].tolist() == ids.tolist()
    written = written if model.config.family == "encoder" else written[-N_NEW:]
    assert reader.decode(np.asarray(written)) == their_text
