"""Tests the models that come with the book: complete, small, as their cards say, and loaded without PyTorch."""

import copy
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from importlib import resources
from itertools import pairwise

import numpy as np
import pytest
import torch
from close import SINGLE, assert_close

from glassformer import nn, scratch, shipped, text
from glassformer.checkpoints import model_of
from glassformer.dates import TARGET_PLACES, date_pairs
from glassformer.generate import generate
from glassformer.scratch import cross_entropy
from glassformer.shipped import CARD, NAMES, card, load
from glassformer.tasks import NO_TARGET, MaskedToken, NextToken
from glassformer.trace import trace
from glassformer.train import Trainer, initialize
from glassformer.train.recipe import FURTHER, Recipe, special_ids, toml_of
from glassformer.train.recipe import NAMES as RECIPES
from tools.models import __main__ as command
from tools.models import make
from tools.models.page import page as page_of
from tools.models.page import section

BYTES_AT_MOST = 2_800_000  # of a model, all files together
DECIMALS = 5.1e-5  # the cards keep four of a loss


def recipe_of(name):
    return Recipe.of_the_book(name)


@cache
def made(name):
    """Returns tokenizer, task and configuration."""
    return recipe_of(name).made_for(text.corpus())


# What is there


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_and_described(name):
    folder = shipped.PLACE / name
    sizes = {path.name: len(path.read_bytes()) for path in folder.iterdir()}
    assert sum(sizes.values()) <= BYTES_AT_MOST
    found = card(name)
    assert sizes.keys() == {*found["files"], CARD}
    assert sum(sizes.values()) - sizes[CARD] == found["bytes"]
    assert {path.name for path in shipped.PLACE.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_was_made_by_its_recipe_as_it_is_now(name):
    """If a recipe has changed since, it would train another model: run make models."""
    recipe, found = recipe_of(name), card(name)
    assert found["recipe"] == tomllib.loads(toml_of(name))
    assert found["changes"] == []
    model, tokenizer = load(name)
    made_tokenizer, task, config = made(name)
    assert model.config == config
    assert tokenizer.to_json() == made_tokenizer.to_json()
    assert found["ids"] == special_ids(config.family, tokenizer.vocab_size)
    assert found["family"] == config.family == task.family
    assert found["parameters"] == sum(weight.size for weight in model.named_parameters().values())
    assert found["averaged"] == (recipe.training.ema is not None)


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_numbers_that_float16_has(name):
    model, _ = load(name)
    for weight in model.named_parameters().values():
        assert weight.dtype == np.float32
        np.testing.assert_array_equal(weight.astype(np.float16).astype(np.float32), weight)


# What the cards say


PARTS = ("validation", "test")


def batches_of(task, part):
    return getattr(task, part)()


def in_both_rooms(name, batches):
    """Yields targets and PyTorch's logits for every batch; for the first few rows, NumPy's loss is the same."""
    (by_numpy, _), (by_torch, _) = load(name), load(name, room="nn")
    for i, (inputs, targets) in enumerate(batches):
        with torch.no_grad():
            logits = by_torch(**{key: torch.from_numpy(array) for key, array in inputs.items()}).numpy()
        if i == 0:
            few = {key: array[:16] for key, array in inputs.items()}
            theirs, ours = (cross_entropy(one, targets[:16]) for one in (logits[:16], by_numpy(**few)))
            assert_close(ours, theirs, SINGLE)
        yield targets, logits


def mean_loss_of(name, batches):
    """Returns the average loss over a whole part."""
    total, asked = 0.0, 0
    for targets, logits in in_both_rooms(name, batches):
        n = int((targets != NO_TARGET).sum())
        total, asked = total + n * float(cross_entropy(logits, targets)), asked + n
    return total / asked


@pytest.mark.weekly
def test_the_decoder_is_as_good_as_its_card_says():
    _, task, config = made("shakespeare")
    found = card("shakespeare")
    windows = {f"{config.context_length} characters": config.context_length, "64 characters": 64}
    assert found["losses"].keys() == windows.keys()
    everything = np.concatenate([task.ids, task.held_out, task.for_test])
    for words, length in windows.items():
        shorter = NextToken(everything, length, 64, 0, validation=0.05, test=0.05)
        for part in PARTS:
            nats = mean_loss_of("shakespeare", batches_of(shorter, part))
            assert_close(nats, found["losses"][words][part], SINGLE, beside=DECIMALS)
    for part in PARTS:
        longer = found["losses"][f"{config.context_length} characters"][part]
        assert found["losses"]["64 characters"][part] > longer
    assert np.mean(list(found["losses"][f"{config.context_length} characters"].values())) <= 1.45


@pytest.mark.weekly
@pytest.mark.parametrize("part", PARTS)
def test_the_decoder_of_words_is_as_good_as_its_card_says(part):
    tokenizer, task, config = made("words")
    found = card("words")
    nats = mean_loss_of("words", batches_of(task, part))
    assert found["losses"].keys() == {f"{config.context_length} tokens"}
    assert_close(nats, found["losses"][f"{config.context_length} tokens"][part], SINGLE, beside=DECIMALS)
    # Where the parts begin and end, in characters: the texts of all three follow each other in the corpus.
    texts = [tokenizer.decode(ids) for ids in (task.ids, task.held_out, task.for_test)]
    assert "".join(texts) == text.corpus()
    ids = {"validation": task.held_out, "test": task.for_test}[part]
    each = len(texts[1 + PARTS.index(part)]) / len(ids)
    assert found["characters_per_token"][part] == pytest.approx(each, abs=1e-4)
    # Better than the decoder that reads characters, in nats a character
    assert nats / each < card("shakespeare")["losses"]["128 characters"][part]
    counts = np.bincount(ids)[np.unique(ids)] / len(ids)
    assert found["landmarks"][part] == {
        "every token alike": pytest.approx(np.log(2048), abs=1e-4),
        "how frequent each token is": pytest.approx(-(counts * np.log(counts)).sum(), abs=1e-4),
    }


@pytest.mark.weekly
@pytest.mark.parametrize("part", PARTS)
def test_the_mixture_of_experts_is_as_good_as_its_card_says(part):
    _, task, config = made("experts")
    found = card("experts")
    nats = mean_loss_of("experts", batches_of(task, part))
    assert_close(nats, found["losses"]["128 characters"][part], SINGLE, beside=DECIMALS)
    # Two of eight experts work for a character; all else does for every character.
    weights = load("experts")[0].named_parameters()
    experts = sum(weight.size for name, weight in weights.items() if ".experts." in name)
    assert found["active"] == found["parameters"] - experts * 6 // 8 == config.parameter_count().active
    assert f"of which each token uses {found['active']:,}" in section(found)


@pytest.mark.parametrize("part", PARTS)
def test_the_landmarks_are_entropies_of_their_part(part):
    n = len(text.corpus())
    begins = {"validation": n * 9 // 10, "test": n - 55_770}
    characters = text.corpus()[begins[part] : begins["test"] if part == "validation" else n]
    assert len(characters) == 55_770
    single, pairs = Counter(characters), Counter(pairwise(characters))
    before = Counter(characters[:-1])

    def nats(counts, condition=None):
        n = sum(counts.values())
        return -sum(
            c / n * np.log(c / (n if condition is None else condition[key[0]])) for key, c in counts.items()
        )

    found = card("shakespeare")["landmarks"][part]
    assert found == {
        "every character alike": pytest.approx(np.log(65), abs=1e-4),
        "how frequent each character is": pytest.approx(nats(single), abs=1e-4),
        "the character before": pytest.approx(nats(pairs, before), abs=1e-4),
    }
    frequent = found["how frequent each character is"]
    assert card("masked")["landmarks"][part]["how frequent each character is"] == frequent


@pytest.mark.weekly
def test_the_encoder_is_as_good_as_its_card_says():
    model, tokenizer = load("masked")
    _, task, _ = made("masked")
    assert isinstance(task, MaskedToken)
    found = card("masked")
    for part in PARTS:
        accuracy, total, right, asked = found["accuracy"][part], 0.0, 0, 0
        for targets, logits in in_both_rooms("masked", batches_of(task, part)):
            n = int((targets != NO_TARGET).sum())
            total += n * float(cross_entropy(logits, targets))
            right += int((logits.argmax(-1) == targets).sum())
            asked += n
        assert asked == accuracy["asked"]
        assert_close(total / asked, found["losses"]["chosen characters"][part], SINGLE, beside=DECIMALS)
        # Rounded to 4 digits; and a tie of logits in the seventh may fall either way in one of the 8,714.
        assert right / asked == pytest.approx(accuracy["right"], abs=2e-4)
        assert accuracy["right"] > 0.5 > 2 * accuracy["always the most frequent"]
    covered, filled, truth = found["sample"][0]
    ids = np.array([found["ids"]["mask"] if c == "_" else tokenizer.encode(c)[0] for c in covered])
    said = tokenizer.decode(model(ids).argmax(-1))
    assert "".join(s if c == "_" else c for s, c in zip(said, covered, strict=True)) == filled
    assert all(c in ("_", t) for c, t in zip(covered, truth, strict=True))


def answers(model, tokenizer, sources):
    ids, sources = card("dates")["ids"], [tokenizer.encode(source) for source in sources]
    ends = {"start_id": ids["start"], "stop_ids": [ids["stop"]]}
    found = generate(model, None, 11, temperature=0, source=sources, **ends)
    return [tokenizer.decode(out[1:-1]) if out[-1] == ids["stop"] else None for out in found]


@pytest.fixture(scope="module")
def unseen():
    """Returns the held-out days, for validation or for the test, and the training days."""
    pairs = date_pairs()
    _, task, _ = made("dates")
    held_out = [*task.held_out.tolist(), *task.for_test.tolist()]
    training = set(range(len(pairs))) - set(held_out)
    return [pairs[i] for i in held_out], [pairs[i] for i in training]


def test_no_day_that_is_held_out_is_learned_in_any_form(unseen):
    held_out, training = unseen
    accuracy = card("dates")["accuracy"]
    assert len(held_out) == sum(accuracy[part]["asked"] for part in PARTS) == 7305
    assert not {pair.target for pair in held_out} & {pair.target for pair in training}


def test_of_7305_dates_that_it_has_never_seen_it_reads_7304():
    """Feeds the right answer so far. Greedy generation has the same result: it agrees up to its first error."""
    _, task, _ = made("dates")
    model, tokenizer = load("dates", room="nn")
    sources = {}
    for part, places in (("validation", task.held_out), ("test", task.for_test)):
        # Those of one length side by side, so that little padding is computed with.
        ordered = copy.copy(task)
        ordered.held_out = sorted(places, key=lambda i: len(task.sources[i]))
        ordered.batch_size = 128
        sources[part] = []
        for inputs, targets in ordered.validation():
            with torch.no_grad():
                said = model(**{name: torch.from_numpy(array) for name, array in inputs.items()}).argmax(-1)
            wrong = ((said.numpy() != targets) & (targets != NO_TARGET)).any(axis=1)
            for row, real in zip(inputs["source"][wrong], inputs["source_mask"][wrong], strict=True):
                sources[part].append(tokenizer.decode(row[real]))
    accuracy, mistakes = card("dates")["accuracy"], card("dates")["mistakes"]
    for part, wrong in sources.items():
        assert len(wrong) == accuracy[part]["wrong"]
        right = accuracy[part]["right"]
        assert right == pytest.approx(1 - len(wrong) / accuracy[part]["asked"], abs=1e-4)
    assert [*sources["validation"], *sources["test"]] == [source for source, _, _ in mistakes]
    assert len(mistakes) == 1


def test_it_writes_what_its_card_says_of_dates(unseen):
    """It writes its known error, formats that were not in the training data, and some right answers."""
    card_says = {source: answer for source, answer, _ in card("dates")["mistakes"] + card("dates")["sample"]}
    right = {pair.source: pair.target for pair in unseen[0][:30] if pair.source not in card_says}
    wanted = card_says | right
    assert dict(zip(wanted, answers(*load("dates"), list(wanted)), strict=True)) == wanted


def test_cross_attention_looks_where_it_is_written(unseen):
    """In NumPy, pair by pair: what the card says about all pairs, and far above chance."""
    model, tokenizer = load("dates")
    start, found = card("dates")["ids"]["start"], card("dates")["alignment"]
    held_out, hits = unseen[0][:150], {part: 0 for part in TARGET_PLACES}
    for pair in held_out:
        ids = np.array([start, *tokenizer.encode(pair.target)[:-1]])
        with trace() as seen:
            model(ids, source=tokenizer.encode(pair.source))
        top = np.stack(seen.arrays("weights", "cross-attention")).argmax(axis=-1)  # (layers, H, T)
        for part, target in TARGET_PLACES.items():
            inside = range(pair.places[part].start, pair.places[part].stop)
            hits[part] = hits[part] + np.isin(top[:, :, target], inside).mean(axis=-1) / len(held_out)
    for part, shares in hits.items():
        np.testing.assert_allclose(shares, found[part]["heads"], atol=0.12)  # 150 of 7305
        assert np.max(found[part]["heads"]) > 0.9 > 0.4 > found[part]["anywhere"]


# Loading


def test_numpy_needs_no_torch():
    program = (
        "import sys; from glassformer import shipped;"
        "[(shipped.load(name), shipped.card(name)) for name in shipped.NAMES];"
        "raise SystemExit('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """Makes a copy that the test can damage."""
    shutil.copytree(str(shipped.PLACE), tmp_path / "models")
    monkeypatch.setattr(shipped, "PLACE", tmp_path / "models")
    return tmp_path / "models" / "dates"


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json", "card.json"])
def test_damaged_files_are_refused_by_name(damaged, file):
    path = damaged / file
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    for changed in (content[:-9], flipped, b"", content + b"\n{}"):
        path.write_bytes(changed)
        with pytest.raises(
            ValueError, match=f"{file} (does not contain what was written|is not JSON|is empty)"
        ):
            shipped.configuration("dates") if file in (shipped.CONFIG, shipped.CARD) else load("dates")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"{file} is missing"):
        load("dates")
    path.write_bytes(content)
    load("dates")


def test_bad_input():
    for call in (load, card):
        with pytest.raises(
            ValueError,
            match="name='hamlet' is not one of 'shakespeare', 'words', 'experts', 'masked', 'dates'",
        ):
            call("hamlet")
    with pytest.raises(ValueError, match="room='jax' is not one of 'scratch', 'nn'"):
        load(room="jax")


@pytest.mark.parametrize("room", ["scratch", "nn"])
def test_weights_of_another_model_are_refused(room):
    model, _ = load("dates")
    weights = model.state_dict()
    with pytest.raises(ValueError, match=r"token_embedding\.weight"):
        model_of(model.config.replace(d_model=32, d_ff=172), weights, room=room)
    del weights["token_embedding.weight"]
    with pytest.raises(ValueError, match=r"token_embedding\.weight"):
        model_of(model.config, weights, room=room)


@pytest.mark.parametrize("room", ["scratch", "nn"])
def test_half_becomes_single_and_double_stays(room):
    """And each call gives a model of its own."""
    model, _ = load("dates")
    load("dates")[0].token_embedding.weight[...] = 0
    assert model.token_embedding.weight.any()
    for given, dtype in (("float16", "float32"), ("float32", "float32"), ("float64", "float64")):
        weights = {name: weight.astype(given) for name, weight in model.state_dict().items()}
        built = model_of(model.config, weights, room=room)
        assert str(built.token_embedding.weight.dtype).removeprefix("torch.") == dtype
        assert not built.training


def test_a_twin_in_numpy_has_a_copy_of_the_weights():
    model, _ = load("dates", room="nn")
    expected = load("dates")[0].state_dict()
    assert scratch.in_numpy(model.train()).training
    twin = scratch.in_numpy(model.eval())
    assert not twin.training
    assert scratch.in_numpy(twin) is twin
    with torch.no_grad():
        model.token_embedding.weight.zero_()
    found = twin.state_dict()
    assert found.keys() == expected.keys()
    for name, weight in found.items():
        np.testing.assert_array_equal(weight, expected[name])


# The command that makes them

SMALL = {
    "shakespeare": ["data.length=16", "data.validation=0.05", "data.test=0.05"],
    "words": ["data.vocab_size=300", "data.length=16", "data.validation=0.05", "data.test=0.05"],
    "experts": ["data.length=16", "data.validation=0.05", "data.test=0.05"],
    "masked": ["data.length=16", "data.validation=0.05", "data.test=0.05"],
    "dates": ["data.validation=0.001", "data.test=0.001"],
}
TINY = ["model.d_model=8", "model.n_layers=1", "model.n_heads=2", "model.d_ff=8", "training.steps=3"]


@pytest.fixture
def few(monkeypatch):
    """Makes the book's text short."""
    beginning = text.corpus()[:60_000]
    monkeypatch.setattr(text, "corpus", lambda: beginning)


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", NAMES)
def test_the_same_command_makes_the_same_bytes(tmp_path, monkeypatch, capsys, name):
    arguments = [name, *(part for change in SMALL[name] + TINY for part in ("--set", change))]
    page = command.PAGE.read_bytes()
    files = []
    for folder in ("first", "second") if name in ("masked", "dates") else ("first",):
        monkeypatch.setattr(sys, "argv", ["tools.models", *arguments, "--to", str(tmp_path / folder)])
        assert command.main() == 0
        files.append({path.name: path.read_bytes() for path in (tmp_path / folder / name).iterdir()})
    assert files[0] == files[-1]
    assert f"{name}: " in capsys.readouterr().out
    assert command.PAGE.read_bytes() == page  # a try is not the book's

    monkeypatch.setattr(shipped, "PLACE", tmp_path / "first")
    model, _ = load(name)
    assert model.config.d_model == 8
    found = card(name)
    assert found["changes"][-1] == "training.steps=3"
    for parts in found["losses"].values():
        assert parts.keys() == set(PARTS)
        assert all(np.isfinite(list(parts.values())))
    assert section(found).startswith(f"## {name}: ")

    if name != "masked":  # it takes the least time
        return
    # Measuring the weights again finds the same.
    (tmp_path / "second" / name / CARD).unlink()
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--measure"])
    assert command.main() == 0
    assert files[1] == {path.name: path.read_bytes() for path in (tmp_path / "second" / name).iterdir()}


@pytest.mark.usefixtures("few")
def test_where_an_average_is_kept_it_is_what_comes_with_the_book():
    recipe = Recipe.of_the_book("masked", [*SMALL["masked"], *TINY, "training.device=cpu"])
    _, task, config = recipe.made_for(text.corpus())
    weights = make.trained(recipe, task, config)
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(recipe.training.seed))
    initialize(model, recipe.training)
    trainer = Trainer(model, task, recipe.training, progress=False)
    trainer.run()
    for name, average in trainer.average.items():
        np.testing.assert_array_equal(weights[name], average.numpy().astype(np.float16))
    last = model.token_embedding.weight.detach().numpy().astype(np.float16)
    assert not np.array_equal(weights["token_embedding.weight"], last)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hamlet"], "'hamlet' is not one of shakespeare, words, experts, masked, dates"),
        (["dates", "--set", "training.steps=3"], "choose a folder for it with --to"),
    ],
)
def test_what_the_command_refuses(monkeypatch, capsys, arguments, said):
    monkeypatch.setattr(sys, "argv", ["tools.models", *arguments])
    with pytest.raises(SystemExit):
        command.main()
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_the_cards_say_what_is_said_of_the_models(name):
    said, found = make.about(name, recipe_of(name)), card(name)
    sizes = {size: found[size] for size in ("characters", "tokens", "context_length") if size in found}
    assert [limit.format(**sizes) for limit in said.pop("limits")] == found["limits"], "make models"
    assert said == {part: found[part] for part in ("title", "what", "data")}, "make models"


def test_whatever_comes_with_the_book_has_a_recipe_and_words():
    words = tomllib.loads(make.ABOUT.read_text(encoding="utf-8"))
    assert words.keys() == {"learned_from", *NAMES}
    assert words["learned_from"].keys() == {recipe_of(name).data.pairs or "corpus" for name in NAMES}
    assert set(NAMES) < set(RECIPES)
    files = (resources.files("glassformer") / "assets" / "recipes").iterdir()
    assert {file.name for file in files} == {f"{name}.toml" for name in (*RECIPES, FURTHER)}


# The page


def test_the_page_is_made_of_the_cards():
    assert command.PAGE.read_text(encoding="utf-8") == page_of([card(name) for name in NAMES]), (
        "python -m tools.models --page"
    )


def test_the_page_shows_what_counts():
    page = command.PAGE.read_text(encoding="utf-8")
    for name in NAMES:
        found = card(name)
        assert f"{found['parameters']:,}" in page
        assert all(limit.replace(" %", "%") in page for limit in found["limits"])
    shown = card("shakespeare")
    for parts in [
        *card("words")["losses"].values(),
        *shown["losses"].values(),
        *shown["landmarks"].values(),
        *card("masked")["losses"].values(),
    ]:
        for nats in parts.values():
            assert re.search(rf"\D{nats:.3f}\D", page)
    assert "Of 7,305 days that it has never seen, it writes **7,304**, or 99.99%" in page
    assert card("shakespeare")["sample"]["text"].strip() in page


def test_the_sample_on_the_page_is_what_the_model_writes():
    model, tokenizer = load("shakespeare")
    sample = card("shakespeare")["sample"]
    how = {"temperature": sample["temperature"], "generator": np.random.default_rng(sample["seed"])}
    [ids] = generate(model, tokenizer.encode(sample["prompt"]), 40, **how)
    assert isinstance(model, scratch.Transformer)
    assert sample["text"].startswith(tokenizer.decode(ids))
