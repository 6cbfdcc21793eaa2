"""Tests CacheCalculator: what each idea saved, counted by hand, by Python and by the page."""

import contextlib
import json

import pytest

from glassformer import anatomy
from glassformer.chapters.ch16.cache_calculator import CacheCalculator
from glassformer.huggingface import config_from_hf, unknown_keys
from glassformer.inside import cache_bytes
from glassformer.layers import CompressedAttention
from tests.anatomy.small import small

FILES = {one["name"]: one["config"] for one in anatomy.shelf()}
LENGTHS = (1, 1000, 131_071)


def ideas_of(name, positions):
    """Returns the ideas of a model of the shelf with the numbers that it keeps after each."""
    rows = anatomy.savings(anatomy.read(FILES[name]), positions)
    return {row["what"]: row["kept"][0] for row in rows}


# Keys and values of 1,000,000 positions, multiplied out by hand. Some layers of Gemma see 1,024 positions, of which the
# cache keeps 1,023, and others share fewer heads. A compressed layer of DeepSeek-V4 keeps 127 positions as they are
# and what it has gathered of the entries that are not complete.
BY_HAND = {
    "Llama 3.2 1B": {"": 16 * 32 * 128 * 10**6, "heads share keys and values": 16 * 8 * 128 * 10**6},
    "Gemma 4 31B": {
        "": (50 * 32 * 512 + 10 * 32 * 1024) * 10**6,
        "heads share keys and values": (50 * 16 * 512 + 10 * 4 * 1024) * 10**6,
        "layers see only the last positions": 50 * 16 * 512 * 1023 + 10 * 4 * 1024 * 10**6,
    },
    "DeepSeek-V3": {
        "": 61 * 128 * (192 + 128) * 10**6,
        "a latent takes the place of keys and values": 61 * (512 + 64) * 10**6,
    },
    "Kimi Linear 48B-A3B": {
        "": 27 * 32 * (192 + 128) * 10**6,
        "a latent takes the place of keys and values": 27 * (512 + 64) * 10**6,
        "layers keep a state instead": 7 * (512 + 64) * 10**6 + 20 * 3 * 32 * 128 * 3,
    },
    "DeepSeek-V4-Pro": {
        "": 61 * 128 * (512 + 512) * 10**6,
        "heads share keys and values": 61 * (512 + 512) * 10**6,
        "one array is keys and values": 61 * 512 * 10**6,
        "older tokens are compressed": 31 * (512 * (127 + 7812) + 1024 * 64)
        + 30 * (512 * (127 + 250_000) + 1024 * 4),
        "an indexer keeps keys of its own": 128_039_424 + 4_802_104_320,
    },
}


@pytest.mark.parametrize("name", BY_HAND)
def test_what_each_idea_leaves_is_what_one_counts_by_hand(name):
    assert ideas_of(name, 10**6) == BY_HAND[name]


def test_a_model_without_any_attention_is_compared_with_keys_and_values_as_wide_as_its_stream():
    file = {**small("mamba", meta=True).config.to_dict(), "model_type": "mamba"}
    whole, _ = anatomy.savings(anatomy.read(file), 1000)
    assert whole["kept"] == [file["num_hidden_layers"] * 2 * file["hidden_size"] * 1000, 0]


def test_layers_that_reuse_a_cache_and_states_beside_attention_are_ideas_too():
    shared = {**small("gemma3n_text", meta=True).config.to_dict(), "model_type": "gemma3n_text"}
    *_, before, after = anatomy.savings(anatomy.read(shared), 100)
    assert after["what"] == "layers reuse what an earlier layer keeps"
    assert before["kept"][0] > after["kept"][0] > 0
    beside = {**small("falcon_h1", meta=True).config.to_dict(), "model_type": "falcon_h1"}
    *_, before, after = anatomy.savings(anatomy.read(beside), 100)
    assert (after["what"], before["kept"][1]) == ("layers also keep a state", 0)
    assert after["kept"][1] > 0


def room_for_unfinished_blocks(config):
    """Returns the bytes in which our code waits for the last position of a block that becomes a compressed token."""
    numbers = 0
    for layer, n in config.layers(config.n_layers).values():
        form = layer.attention.form
        if isinstance(form, CompressedAttention) and form.compress > 1:
            width = layer.attention.d_head + (form.indexer.d_head if form.indexer else 0)
            times = 1 + form.overlapping
            numbers += n * width * 2 * times * (times * form.compress - 1)
    return 2 * numbers


def test_the_page_counts_what_python_counts_and_the_last_row_is_what_our_code_keeps(call):
    tables, ideas = anatomy.tables() | {"classes": anatomy.classes()}, anatomy.ideas()
    cases = [[file, n] for file in FILES.values() for n in LENGTHS]
    known = 0
    arguments = [[file, of_family(file, tables), ideas, n] for file, n in cases]
    for (file, n), page in zip(cases, call.each("anatomy", "cacheReport", arguments), strict=True):
        rows = anatomy.savings(anatomy.read(file), n)
        assert page["savings"] == rows
        kept, state = rows[-1]["kept"]
        assert 2 * kept + 4 * state == cache_bytes(anatomy.read(file), n, bytes_per_number=2)
        with contextlib.suppress(ValueError):  # what our code does not run
            config = config_from_hf(file, ignore=unknown_keys(file))
            if config.family == "decoder":
                more = cache_bytes(config, n, bytes_per_number=2) - (2 * kept + 4 * state)
                assert more == 0 or 0 < more <= room_for_unfinished_blocks(config)
                known += 1
    assert known >= 7 * len(LENGTHS)


def of_family(file, tables):
    """Returns the tables of the family of a file alone: all of them for a hundred files would take megabytes."""
    family = anatomy.read(file).family
    own = {part: {family: tables[part][family]} for part in ("families", "classes")}
    return {"parts": tables["parts"]} | own


# --- what is seen -----------------------------------------------------------------------------------------


def test_counted_by_keyboard(mount):
    w = mount(CacheCalculator(text=json.dumps(FILES["DeepSeek-V4-Pro"]), positions=1_000_000))
    assert w.says == (
        "After 1,000,000 positions, the cache of DeepSeek-V4-Pro takes 9.86 GB; the next position adds 9.85 kB. "
        "The weights take 3.15 TB at the same precision."
    )
    rows = w.root.locator(".gf-saving")
    assert rows.count() == len(BY_HAND["DeepSeek-V4-Pro"]) + 1
    assert "÷ 128" in rows.nth(1).inner_text()
    assert "× 1.24" in rows.nth(4).inner_text()
    widths = [row.bounding_box()["width"] for row in w.root.locator(".gf-rest").all()]
    assert widths[0] > widths[1] > widths[2] > widths[3] == widths[4] < widths[5]
    assert [w.root.locator(f".gf-track .{what}").count() for what in ("gf-saved", "gf-added")] == [4, 1]
    w.press("Positions read", "ArrowLeft")
    w.press("8", "Space")
    assert w.saved() == {"positions": 500_000, "bits": 8}
    bytes_of = [row[1] for row in w.tables()[0][1:]]
    assert bytes_of[:2] == [f"{61 * 128 * 1024 * 500_000:,}", f"{61 * 1024 * 500_000:,}"]

    w.control("Model").select_option("GPT-2")
    assert "This model was made for texts of at most 1,024 positions." in w.says
    assert w.control("Model").locator("option", has_text="BERT").count() == 0
    w.control("Model").select_option("Kimi Linear 48B-A3B")
    w.press("4", "Space")
    numbers, state = BY_HAND["Kimi Linear 48B-A3B"]["layers keep a state instead"], 20 * 32 * 128 * 128
    kept = (numbers - 7 * (512 + 64) * 500_000) / 2 + 4 * state
    assert w.tables()[0][3][1] == f"{round(kept):,}"


def test_what_cannot_be_counted_says_why_and_stays(mount, tmp_path):
    w = mount(CacheCalculator())
    typed = w.control("… or type how many")
    for wrong in ("0", "10,000,001", "1e6", "a million", "1,00", ""):
        typed.fill(wrong)
        assert w.says.startswith(
            f"positions={wrong} must be a whole number from 1 to 10,000,000. After 100,000"
        )
        assert (typed.input_value(), typed.get_attribute("aria-invalid")) == (wrong, "true")
    for right in ("1234567", "1,234,567", "1_234_567"):
        typed.fill(right)
        assert w.says.startswith("After 1,234,567 positions")
        assert typed.input_value() == right
    w.press("Positions read", "ArrowRight")
    assert typed.input_value() == "2,000,000"

    w.root.locator(".gf-file > summary").press("Enter")
    field = w.root.locator("textarea")
    field.fill(json.dumps(FILES["GPT-2"] | {"n_head": 5.5}))
    assert w.says == "Nothing is counted: n_head=5.5 must be a whole number."
    assert field.get_attribute("aria-invalid") == "true"
    assert not w.root.locator(".gf-savings").is_visible()
    (tmp_path / "mine.json").write_text(json.dumps(FILES["BERT base"]), encoding="utf-8")
    w.root.locator("input[type=file]").set_input_files(tmp_path / "mine.json")
    w.page.get_by_text("Your model keeps nothing from one token to the next.").first.wait_for()
