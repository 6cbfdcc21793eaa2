"""Cuts the examples of the view RealTokens into tokens and stores them, so that it can show them without a vocabulary.

python tools/assets/token_examples.py     open gpt-tokenizer in Chromium and write chapters/ch02/real_tokens.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
# for `python tools/assets/token_examples.py`, which has only its own folder on its path
sys.path.append(str(ROOT))

from glassformer.chapters.ch02 import real_tokens  # noqa: E402
from glassformer.widgets.kit.modules import needed, read  # noqa: E402
from tools.shared import browser  # noqa: E402

LOAD = """async ([loader, modules, source]) => {
  const address = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const { link } = await import(address(loader));
  const { cut, tokenizerFrom } = await link(modules);
  const tokenizer = await tokenizerFrom(source);
  window.core = tokenizer.bytePairEncodingCoreProcessor;
  window.cut = (text, special) => cut(tokenizer, text, special).map((token) => ({ ...token, bytes: [...token.bytes] }));
}"""


def open_vocabulary(page: Page, file: str) -> None:
    """Loads a vocabulary into a page, whose `cut(text, special)` then returns tokens as the view computes them."""
    modules = [{"name": name, "source": read(name)} for name in needed("real_tokens")]
    page.evaluate(LOAD, [read("loader"), modules, real_tokens.module(file).decode()])


def cuts(page: Page) -> dict[str, dict[str, list[list[int]]]]:
    """Returns, for each example and each vocabulary, the tokens as [id, number of bytes, 1 if it is special]."""
    found: dict[str, dict[str, list[list[int]]]] = {example.text: {} for example in real_tokens.EXAMPLES}
    for vocabulary in real_tokens.VOCABULARIES:
        open_vocabulary(page, vocabulary.file)
        for example in real_tokens.EXAMPLES:
            tokens = page.evaluate("(list) => cut(...list)", [example.text, example.special])
            found[example.text][vocabulary.name] = [
                [token["id"], len(token["bytes"]), int(token["isSpecial"])] for token in tokens
            ]
    return found


def main() -> None:
    """Write the file."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.ensure(), args=browser.FLAGS)
        found = cuts(chromium.new_page())
        chromium.close()
    lines = ",\n".join(f"  {json.dumps(text)}: {json.dumps(kept)}" for text, kept in found.items())
    real_tokens.CUTS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(f"{real_tokens.CUTS.relative_to(ROOT)}: {len(found)} examples")


if __name__ == "__main__":
    main()
