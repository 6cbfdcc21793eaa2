"""Tests that the glossary has the terms that readers look for, each with one short definition and a way on."""

import re

import pytest

from tools.notebooks import ROOT

TEXT = (ROOT / "book/glossary.md").read_text(encoding="utf-8")
ENTRIES = {
    term: " ".join(words.split())
    for term, words in (part.split("\n", 1) for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:])
}
# Terms of the field that a reader may come for, whether or not a chapter builds them.
WANTED = """
    attention sink, bfloat16, computation graph, context window, continuous batching, critical batch size,
    distillation, DPO, embedding model, FlashAttention, in-context learning, induction head, instruction
    tuning, Jacobian, KV cache, logit lens, LoRA, mixed precision, mixture of experts, MLA, MLP, Muon,
    nonlinearity, nucleus sampling, paged cache, perplexity, pretraining, prompt, quantization, reasoning
    model, RLHF, scaling law, SentencePiece, sliding window, special token, speculative decoding,
    state-space model, superposition, unembedding, Unigram tokenizer, warm-up, WordPiece, WSD, YaRN,
    z-loss
""".replace("\n", " ").split(",")
MOST_SENTENCES, MOST_WORDS = 5, 100
REMARK = re.compile(r"\*You may know this as|\*See\* |\*Chapters? |\(\[[^\]]+ \d{4}\]")


def definition(entry):
    """Returns an entry up to its other names, its chapter and its sources."""
    return REMARK.split(entry)[0].strip()


@pytest.mark.parametrize("term", [" ".join(term.split()) for term in WANTED])
def test_the_terms_of_the_field_are_there(term):
    assert term in ENTRIES


@pytest.mark.parametrize("term", ENTRIES)
def test_a_definition_is_short(term):
    words = definition(ENTRIES[term])
    sentences = re.findall(r"[.?!](?= |$)", words)
    assert len(sentences) <= MOST_SENTENCES, words
    assert len(words.split()) <= MOST_WORDS, words


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_leads_on(term):
    """It leads to a chapter, a source, a page or another entry."""
    ways = r"\*Chapters? |\]\((?:bibliography|models|parity)\.md|\*See\* \["
    assert re.search(ways, ENTRIES[term]) or term == "hallucination"  # which has no one source


def test_a_remark_is_no_part_of_the_definition():
    assert definition("A thing. *You may know this as* it. *Chapter 01* ([A 2020](b.md#c)).") == "A thing."
    assert definition("*See* [b](#b).") == ""
    assert definition("A [thing](#thing) ([A 2020](b.md#c); [B 2021](b.md#d)).") == "A [thing](#thing)"
