"""Inside the book's model of Shakespeare: what each block adds, what is lost without it, what its neurons keep."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int64

from glassformer import _checks as checks
from glassformer import inside, shipped
from glassformer.experiments.experiment import Experiment, Found
from glassformer.inside import Memory
from glassformer.scratch import Transformer
from glassformer.scratch.loss import cross_entropy
from glassformer.tasks import Batch
from glassformer.text import BytePairTokenizer, CharTokenizer, corpus, inputs_and_targets, split

PARTS = ("lens", "attribution", "ablations", "mean ablations", "memories", "induction")

N_TARGETS = 32_768  # about so many characters of the validation text, from all of it
AT_A_TIME = 4096  # of these
N_READ = 1_000_000  # characters of the training text that the neurons are shown
N_TRIED = 40  # memories of each block, those that agree best, that are taken out one by one
N_SHOWN = 4  # of these, those that are missed most are kept in full
N_CONTEXTS, CONTEXT = 8, 16  # so many contexts of each, so many characters of a context
N_REPEATS, PERIOD = 64, 32  # texts that are repeated, and their length


def measure(part: str, n_targets: int = N_TARGETS, n_read: int = N_READ, n_tried: int = N_TRIED) -> Found:
    """One part of the tour through the model, in nats a character where it is a loss.

    "lens": the loss after the embeddings and after each block, and how often the likeliest character is already
    the final one. "attribution": what each part adds, in the mean, to the next character's logit, against that of
    the likeliest other. "ablations" and "mean ablations": the loss without each sublayer and head, which write
    nothing or their mean instead. "memories": how well the neurons' contexts and tokens belong together in each
    block, and of those that do best, the ones that are missed most: the loss right after their contexts, with the
    neuron and without it. "induction": what heads attend to in texts that are repeated, and the losses there.

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
    return induction(model, validation)


def sample(ids: Int64[np.ndarray, " N"], T: int, n_targets: int) -> Iterator[Batch]:
    """Windows of T from all of the text, with the same gap between any two, in batches."""
    n_windows = max(1, n_targets // T)
    starts = np.linspace(0, len(ids) - T - 1, n_windows).astype(int)
    for some in np.array_split(starts, -(-n_windows * T // AT_A_TIME)):
        inputs, targets = inputs_and_targets(ids[some[:, None] + np.arange(T + 1)])
        yield {"ids": inputs}, targets


def lens(model: Transformer, batches: list[Batch]) -> Found:
    """After the embeddings and after each block: the loss, and the agreement with the final prediction."""
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
        # The same in a short run: a fingerprint of the model
        "first window": [float(cross_entropy(logits, targets)) for logits in inside.logit_lens(model, ids)],
    }


def attribution(model: Transformer, batches: list[Batch]) -> Found:
    """What each part adds in the mean to the logit of the character that came, against the likeliest other."""
    total: dict[str, float] = {}
    for inputs, targets in batches:
        logits = model(**inputs)
        np.put_along_axis(logits, targets[..., None], -np.inf, axis=-1)
        other = logits.argmax(axis=-1)  # the likeliest but for the one that came
        for name, share in inside.logit_attribution(model, inputs["ids"], targets, against=other).items():
            total[name] = total.get(name, 0) + float(share.mean()) / len(batches)
    return total


def memories(
    model: Transformer,
    tokenizer: CharTokenizer | BytePairTokenizer,
    ids: Int64[np.ndarray, " N"],
    n_tried: int,
) -> Found:
    """For each block, how well contexts and promoted characters belong together, and which neurons are missed."""
    found = inside.memories(model, ids)
    blocks = []
    for i in range(model.config.n_layers):
        own = [memory for memory in found if memory.block == i]
        tried = [described(model, tokenizer, ids, memory) for memory in own[:n_tried]]
        tried.sort(key=lambda memory: memory["loss"] - memory["loss without"])
        # The same contexts with some other memory's tokens: what any neuron's would agree with them
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


def described(
    model: Transformer,
    tokenizer: CharTokenizer | BytePairTokenizer,
    ids: Int64[np.ndarray, " N"],
    memory: Memory,
) -> Found:
    """A memory in characters, and the loss right after its contexts, with the neuron and without it."""
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
    """The mean loss of what comes after these places, each read with as much before it as the model can read."""
    T = model.config.context_length
    # One by one, since at the very beginning of the text there is less to read
    last = np.stack([model(ids[max(0, place + 1 - T) : place + 1])[-1] for place in places])  # (places, V)
    return float(cross_entropy(last, ids[places + 1]))


def induction(model: Transformer, validation: Int64[np.ndarray, " N"]) -> Found:
    """The scores of all heads, and the losses, on random characters that are repeated and on lines of the play."""
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
    """The two scores of a head that attends to all that it sees alike."""
    visible = np.arange(1, 2 * PERIOD + 1)
    return {
        "previous": float((1 / visible[1:PERIOD]).mean()),
        "induction": float((1 / visible[PERIOD:]).mean()),
    }


EXPERIMENT = Experiment(
    name="inside",
    question="What does each part of a small trained model do, and what is lost without it?",
    measure=measure,
    runs=tuple({"part": part} for part in PARTS),
    short={"n_targets": 1024, "n_read": 20_000, "n_tried": 4},
)
