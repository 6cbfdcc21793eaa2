// The tokenizers of real models: the library gpt-tokenizer, of which each file holds one vocabulary.

// What a module exports, given its text (chapters/ch02/real_tokens.py). A server may forbid code that is not in files; the book's
// site has this module in a file, too (tools/extensions/model_weights.py).
export async function tokenizerFrom(text, name) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const ways = [
    () => import(url),
    () => import(`data:text/javascript;charset=utf-8,${encodeURIComponent(text)}`), // some browsers, from file://
    () => import(new URL(`../models/tokenizer-${name}.module.js`, import.meta.url)),
  ];
  let reason;
  for (const way of ways) {
    try {
      return (await way()).default;
    } catch (error) {
      reason ??= error;
    }
  }
  throw reason;
}
