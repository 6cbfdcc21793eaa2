"""Judges "What is wrong with this run?" (chapter 10): what a few numbers of a run reveal about it."""

import math
import re

from glassformer.exercises.catalogue import exercise

FINE, START, BROKEN, TARGETS, LEAK, OVERFIT = "fine", "start", "broken", "targets", "leak", "overfitting"


def diagnose(
    first: float, one_batch: float, training: float, validation: float, vocab_size: int, unigram: float
) -> str:
    """Returns what a run's few numbers show, with the cheapest test first."""
    if first > math.log(vocab_size) + 0.5:
        return "start"
    if one_batch > 0.1:
        return "broken"
    if training > unigram - 0.05:
        return "targets"
    if validation < 0.5:
        return "leak"
    if validation > training + 0.3:
        return "overfitting"
    return "fine"


judged = exercise("training.diagnose", diagnose)

judged.case("a good run", 4.2, 0.03, 1.52, 1.61, 65, 3.35, want=FINE)
judged.case("the first loss is far above ln V", 9.7, 0.02, 1.9, 1.95, 65, 3.35, want=START)
judged.also(5.5, 0.02, 1.9, 1.95, 65, 3.35, want=START)
judged.also(4.6, 0.02, 1.9, 1.95, 65, 3.35, want=FINE)
judged.also(10.9, 0.02, 3.1, 3.2, 50_257, 7.7, want=FINE)
judged.case("one batch is not memorized", 4.2, 1.3, 2.4, 2.45, 65, 3.35, want=BROKEN)
judged.case("the model knows only how often characters occur", 4.2, 0.02, 3.34, 3.36, 65, 3.35, want=TARGETS)
judged.also(7.0, 0.02, 2.9, 2.95, 700, 2.92, want=TARGETS)
judged.case("too good to be true", 4.2, 0.01, 0.03, 0.02, 65, 3.35, want=LEAK)
judged.case("good on its own text, bad on other text", 4.2, 0.02, 0.92, 3.7, 65, 3.35, want=OVERFIT)
judged.also(4.2, 0.02, 0.03, 4.9, 65, 3.35, want=OVERFIT)
judged.also(4.2, 0.02, 1.5, 1.75, 65, 3.35, want=FINE)
judged.also(4.2, 0.02, 2.0, 2.35, 65, 3.35, want=OVERFIT)
judged.also(4.2, 0.02, 0.6, 0.85, 65, 3.35, want=FINE)
judged.case("a first loss below ln V is no mistake", 3.0, 0.02, 1.9, 1.95, 65, 3.35, want=FINE)
judged.case("the limits are those of the list", 4.2, 0.3, 1.9, 1.95, 65, 3.35, want=BROKEN)
judged.also(4.2, 0.02, 3.32, 3.33, 65, 3.35, want=TARGETS)
judged.also(4.2, 0.02, 3.27, 3.3, 65, 3.35, want=FINE)
judged.also(4.2, 0.02, 1.0, 0.7, 65, 3.35, want=FINE)
judged.also(4.2, 0.02, 0.6, 0.45, 65, 3.35, want=LEAK)
judged.case("if several are true, the first in the list counts", 9.7, 2.0, 3.4, 3.4, 65, 3.35, want=START)
judged.also(4.2, 2.0, 3.4, 3.4, 65, 3.35, want=BROKEN)
judged.also(4.2, 0.02, 3.4, 4.0, 65, 3.35, want=TARGETS)
judged.also(4.2, 0.02, 3.4, 0.3, 65, 3.35, want=TARGETS)
judged.also(4.2, 0.02, 0.05, 0.45, 65, 3.35, want=LEAK)


_RULES = re.findall(r"    if .*\n.*\n", judged.answer)  # start, broken, targets, leak, overfitting
for _order in ((4, 3, 2, 1, 0), (1, 0, 2, 3, 4), (0, 1, 4, 2, 3), (0, 1, 3, 2, 4), (0, 1, 2, 4, 3)):
    judged.slip("order", "".join(_RULES), "".join(_RULES[i] for i in _order))
