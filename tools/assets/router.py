"""Counts which characters the experts of the book's mixture take in held-out text, for the view RouterView.

    python tools/assets/router.py

It takes less than a minute. Run it again when the model `experts` has been trained again.
"""

from __future__ import annotations

import json

from glassformer import shipped, text
from glassformer.chapters.ch18 import router_view
from glassformer.train.recipe import Recipe


def main() -> None:
    model, tokenizer = shipped.load("experts")
    _, task, _ = Recipe.of_the_book("experts").made_for(text.corpus())
    facts = router_view.measure(model, tokenizer, task.held_out)
    content = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    router_view.FACTS.write_text(f"{content}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
