"""Looks inside the book's Shakespeare model: what each block adds, what is lost without it, what neurons store."""

from collections.abc import Callable, Iterator
from copy import deepcopy

import numpy as np
from jaxtyping import Float, Int64

from glassformer import _checks as checks
from glassformer import inside, shipped
from glassformer.experiments.experiment import Experiment, Found
from glassformer.inside import Memory
from glassformer.inside.look import decoder_of
from glassformer.inside.neurons import read_out
from glassformer.scratch import Transformer
from glassformer.scratch.loss import cross_entropy
from glassformer.tasks import Batch
from glassformer.text import BytePairTokenizer, CharTokenizer, corpus, inputs_and_targets, split

PARTS = ("lens", "attribution", "ablations", "mean ablations", "memories", "random memories", "induction")

N_TARGETS = 32_768  # about so many characters, spread over the validation text
AT_A_TIME = 4096  # of these
N_READ = 1_000_000  # characters of the training text that the neurons read
N_TRIED = 40  # memories per block, those with the best agreement, that are removed one at a time
N_SHOWN = 4  # how many of these, the ones missed most, are stored in full
N_CONTEXTS, CONTEXT = 8, 16  # contexts per memory, and characters per context
DRAWS = (0, 1, 2)  # draws of random directions
N_LISTENED = 250_000  # characters of the training text that the neurons' random doubles read
N_REPEATS, PERIOD = 64, 32  # number and length of the texts that are repeated


def measure(
    part: str, draw: int = 0, n_targets: int = N_TARGETS, n_read: int = N_READ, n_tried: int = N_TRIED
) -> Found:
    """Measures one aspect of the model; losses are in nats per character.

    "lens": the loss after the embeddings and after each block, and how often the likeliest character is
    already the final one. "attribution": what each part adds, on average, to the next character's logit
    relative to that of the likeliest other character. "ablations" and "mean ablations": the loss when each
    sublayer or head writes nothing, or its mean. "memories": how well the neurons' contexts and promoted
    tokens match in each block, and, among the best matches, the neurons that are missed most: the loss right
    after their contexts with and without the neuron. "random memories": the same match when the directions
    that a neuron reads, or the one that it writes, are drawn at random (draw number `draw`). "induction":
    what heads attend to in repeated texts, and the losses there.

    Derived in chapters 03, 05, 06 and 07.

    Raises:
        ValueError: there is no such part.
    """
    checks.one_of("part", part, PARTS)
    model, tokenizer = shipped.load()
    training, validation = split(tokenizer.encode(corpus()))
    T = model.config.context_length
    batches = list(sample(validation, T, n_targets))
    match part:
        case "lens":
            return lens(model, batches)
        case "attribution":
            return attribution(model, batches)
        case "ablations":
            return inside.ablations(model, batches)
        case "mean ablations":
            n_reference = min(n_targets, AT_A_TIME)
            reference = np.vstack([inputs["ids"] for inputs, _ in sample(training, T, n_reference)])
            return inside.ablations(model, batches, mean_over=reference)
        case "memories":
            return memories(model, tokenizer, training[:n_read], n_tried)
        case "random memories":
            return random_memories(model, tokenizer, training[: min(n_read, N_LISTENED)], draw)
    return induction(model, validation)


def sample(ids: Int64[np.ndarray, " N"], T: int, n_targets: int) -> Iterator[Batch]:
    """Yields equally spaced windows of T from the whole text, in batches."""
    n_windows = max(1, n_targets // T)
    starts = np.linspace(0, len(ids) - T - 1, n_windows).astype(int)
    for some in np.array_split(starts, -(-n_windows * T // AT_A_TIME)):
        inputs, targets = inputs_and_targets(ids[some[:, None] + np.arange(T + 1)])
        yield {"ids": inputs}, targets


def lens(model: Transformer, batches: list[Batch]) -> Found:
    """Returns the loss and the agreement with the final prediction, after the embeddings and after each block."""
    losses, agreements = [], []
    for inputs, targets in batches:
        views = inside.logit_lens(model, inputs["ids"])  # (L + 1, B, T, V)
        losses.append([float(cross_entropy(logits, targets)) for logits in views])
        likeliest = views.argmax(axis=-1)
        agreements.append((likeliest == likeliest[-1]).mean(axis=(1, 2)))
    ids, targets = batches[0][0]["ids"][:1], batches[0][1][:1]
    return {
        "loss": np.mean(losses, axis=0).tolist(),
        "agreement": np.mean(agreements, axis=0).tolist(),
        # Also computed in a short run, as a fingerprint of the model
        "first window": [float(cross_entropy(logits, targets)) for logits in inside.logit_lens(model, ids)],
    }


def attribution(model: Transformer, batches: list[Batch]) -> Found:
    """Returns what each part adds, on average, to the actual next character's logit minus its top rival's."""
    total: dict[str, float] = {}
    for inputs, targets in batches:
        logits = model(**inputs)
        np.put_along_axis(logits, targets[..., None], -np.inf, axis=-1)
        other = logits.argmax(axis=-1)  # the likeliest except the actual one
        for name, share in inside.logit_attribution(model, inputs["ids"], targets, against=other).items():
            total[name] = total.get(name, 0) + float(share.mean()) / len(batches)
    return total


def memories(
    model: Transformer,
    tokenizer: CharTokenizer | BytePairTokenizer,
    ids: Int64[np.ndarray, " N"],
    n_tried: int,
) -> Found:
    """Returns, for each block, how well contexts and promoted characters match, and which neurons are missed most."""
    found = inside.memories(model, ids)
    blocks = []
    for i in range(model.config.n_layers):
        own = [memory for memory in found if memory.block == i]
        tried = [described(model, tokenizer, ids, memory) for memory in own[:n_tried]]
        tried.sort(key=lambda memory: memory["loss"] - memory["loss without"])
        # The same contexts with another memory's tokens: the agreement for arbitrary neurons
        half = len(own) // 2
        strangers = zip(own, own[half:] + own[:half], strict=True)
        others = [np.isin(ids[one.places + 1], other.promoted).mean() for one, other in strangers]
        blocks.append(
            {
                "agreement": float(np.mean([memory.agreement for memory in own])),
                "chance": float(np.mean([memory.chance for memory in own])),
                "agreement with another's": float(np.mean(others)),
                "missed most": tried[:N_SHOWN],
            }
        )
    return {"blocks": blocks}


def random_memories(
    model: Transformer,
    tokenizer: CharTokenizer | BytePairTokenizer,
    ids: Int64[np.ndarray, " N"],
    draw: int,
) -> Found:
    """Returns, for each block, how well neurons with random directions score by the procedure of `inside.memories`.

    Each neuron gets two doubles that read random directions of the same length as its own: "anywhere", with
    all directions equally likely, and "matched", drawn with the variances and covariances of the block's own
    columns. Random directions for writing are drawn in the same two ways. The results for each: "agreement",
    the fraction of the contexts that are followed by one of the promoted characters, and "chance", the same
    for all positions. "same end", "same word" and "same next" show how similar the contexts are: the fractions
    with the most common last character, last word (or the beginning of one) and next character.
    """
    rng = np.random.default_rng(draw)
    F, V = model.config.d_ff, model.config.vocab_size
    found = inside.memories(with_listeners(model, rng), ids)
    T = model.config.context_length
    follows = np.bincount(ids[1 : (len(ids) - 1) // T * T + 1], minlength=V)
    words = last_words(tokenizer, ids)
    n_promoted = len(found[0].promoted)

    def belonging(places: Int64[np.ndarray, "M n"], promoted: Int64[np.ndarray, "M k"]) -> Found:
        did_follow = (ids[places + 1][..., None] == promoted[:, None]).any(axis=-1)
        chance = follows[promoted].sum(axis=-1) / follows.sum()
        return {"agreement": float(did_follow.mean()), "chance": float(chance.mean())}

    def alike(places: Int64[np.ndarray, "M n"]) -> Found:
        def commonest(ends: Int64[np.ndarray, "M n"]) -> float:
            return float(np.mean([np.unique(row, return_counts=True)[1].max() / len(row) for row in ends]))

        return {
            "same end": commonest(ids[places]),
            "same word": commonest(words[places]),
            "same next": commonest(ids[places + 1]),
        }

    blocks = []
    for i in range(model.config.n_layers):
        own = sorted((m for m in found if m.block == i), key=lambda m: (-m.sign, m.neuron))
        n_signs = len({m.sign for m in own})
        # Row r of each: the neuron itself or one of its doubles, with both signs one after the other
        places = np.stack([m.places for m in own]).reshape(n_signs, 3, F, -1).swapaxes(0, 1)
        places = dict(zip(("own", *DIRECTIONS), places.reshape(3, n_signs * F, -1), strict=True))
        W_down = decoder_of(model).blocks[i].feedforward.W_down.weight
        values = {"own": W_down} | {name: draw_(W_down.T, rng).T for name, draw_ in DIRECTIONS.items()}
        promoted = {}
        for name, rows in values.items():
            logits = read_out(model, rows)
            both = np.vstack([sign * logits for sign in (1, -1)[:n_signs]])
            promoted[name] = np.argsort(-both, axis=1)[:, :n_promoted]
        blocks.append(
            {
                "neurons": belonging(places["own"], promoted["own"]) | alike(places["own"]),
                "random keys": {
                    name: belonging(places[name], promoted["own"]) | alike(places[name])
                    for name in DIRECTIONS
                },
                "random values": {name: belonging(places["own"], promoted[name]) for name in DIRECTIONS},
                "random places": alike(rng.integers(0, len(ids) - 1, places["own"].shape)),
            }
        )
    return {"blocks": blocks}


def last_words(
    tokenizer: CharTokenizer | BytePairTokenizer, ids: Int64[np.ndarray, " N"]
) -> Int64[np.ndarray, " N"]:
    """Returns a number for the last word up to each position, equal for equal words.

    A word is a run of letters; at a position inside one, only the letters so far count.
    """
    numbers: dict[str, int] = {}
    found, word, inside_one = [], "", False
    for i in ids.tolist():
        for character in tokenizer.decode([i]):
            if character.isalpha():
                word = word + character if inside_one else character
            inside_one = character.isalpha()
        found.append(numbers.setdefault(word, len(numbers)))
    return np.array(found)


def anywhere(columns: Float[np.ndarray, "D F"], rng: np.random.Generator) -> Float[np.ndarray, "D F"]:
    """Draws as many random directions as there are columns, with the columns' lengths."""
    drawn = rng.normal(size=columns.shape)
    return as_long_as(columns, drawn)


def matched(columns: Float[np.ndarray, "D F"], rng: np.random.Generator) -> Float[np.ndarray, "D F"]:
    """Draws random mixtures of the columns, which vary in the same directions as the columns."""
    F = columns.shape[1]
    return as_long_as(columns, columns @ rng.normal(size=(F, F)))


def as_long_as(
    columns: Float[np.ndarray, "D F"], drawn: Float[np.ndarray, "D F"]
) -> Float[np.ndarray, "D F"]:
    """Scales the drawn columns to the lengths of the others."""
    lengths = np.linalg.norm(columns, axis=0) / np.linalg.norm(drawn, axis=0)
    return (drawn * lengths).astype(columns.dtype)


DIRECTIONS: dict[str, Callable] = {"anywhere": anywhere, "matched": matched}


def with_listeners(model: Transformer, rng: np.random.Generator) -> Transformer:
    """Returns the same model with doubles of every neuron that read random directions and write nothing."""
    wide = deepcopy(model)
    wide.config = model.config.replace(d_ff=(1 + len(DIRECTIONS)) * model.config.d_ff)
    for block in decoder_of(wide).blocks:
        feedforward = block.feedforward
        for layer in filter(None, (feedforward.W_gate, feedforward.W_up)):
            drawn = [draw(layer.weight, rng) for draw in DIRECTIONS.values()]
            layer.weight = np.hstack([layer.weight, *drawn])
            layer.n_out = layer.weight.shape[1]
            if layer.bias is not None:
                layer.bias = np.tile(layer.bias, 1 + len(DIRECTIONS))
        W_down = feedforward.W_down
        silence = np.zeros_like(W_down.weight)
        W_down.weight = np.vstack([W_down.weight, *[silence] * len(DIRECTIONS)])
        W_down.n_in = len(W_down.weight)
    return wide


def described(
    model: Transformer,
    tokenizer: CharTokenizer | BytePairTokenizer,
    ids: Int64[np.ndarray, " N"],
    memory: Memory,
) -> Found:
    """Returns a memory in characters, and the loss right after its contexts with and without the neuron."""
    places = memory.places[:N_CONTEXTS]
    texts = [tokenizer.decode(ids[max(0, place + 1 - CONTEXT) : place + 1]) for place in places]
    intact = loss_after(model, ids, places)
    with inside.ablated(model, memory.block, "feed-forward", [memory.neuron]):
        without = loss_after(model, ids, places)
    return {
        "neuron": memory.neuron,
        "sign": memory.sign,
        "contexts": texts,
        "promoted": tokenizer.decode(memory.promoted),
        "agreement": memory.agreement,
        "chance": memory.chance,
        "loss": intact,
        "loss without": without,
    }


def loss_after(model: Transformer, ids: Int64[np.ndarray, " N"], places: Int64[np.ndarray, " _"]) -> float:
    """Returns the mean loss of the characters after these positions, each read with as much context as possible."""
    T = model.config.context_length
    # One at a time, because at the very beginning of the text there is less to read
    last = np.stack([model(ids[max(0, place + 1 - T) : place + 1])[-1] for place in places])  # (places, V)
    return float(cross_entropy(last, ids[places + 1]))


def induction(model: Transformer, validation: Int64[np.ndarray, " N"]) -> Found:
    """Returns the scores of all heads and the losses, on repeated random characters and on lines of the play."""
    V = model.config.vocab_size
    starts = np.linspace(0, len(validation) - PERIOD, N_REPEATS).astype(int)
    texts = {
        "random": np.random.default_rng(0).integers(V, size=(N_REPEATS, PERIOD)),
        "Shakespeare": validation[starts[:, None] + np.arange(PERIOD)],
    }
    found = {}
    for name, text in texts.items():
        found[name] = {
            "previous": inside.previous_token_scores(model, text).tolist(),
            "induction": inside.induction_scores(model, text).tolist(),
            "even": even_attention(),
            "losses": inside.repetition(model, text)._asdict(),
        }
    return found


def even_attention() -> dict[str, float]:
    """Returns the two scores of a head that attends equally to everything it sees."""
    visible = np.arange(1, 2 * PERIOD + 1)
    return {
        "previous": float((1 / visible[1:PERIOD]).mean()),
        "induction": float((1 / visible[PERIOD:]).mean()),
    }


EXPERIMENT = Experiment(
    name="inside",
    question="What does each part of a small trained model do, and what is lost without it?",
    measure=measure,
    runs=tuple(
        {"part": part} | ({"draw": draw} if part == "random memories" else {})
        for part in PARTS
        for draw in (DRAWS if part == "random memories" else DRAWS[:1])
    ),
    short={"n_targets": 1024, "n_read": 20_000, "n_tried": 1},
)
