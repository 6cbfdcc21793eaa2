// The tokenizers of real models: the library gpt-tokenizer, of which each file holds one vocabulary.

// A file of the library, as what it exports: { encode, decode, … }. It is a script for several kinds of hosts; here it finds
// the kind with `module.exports`, whatever else the page has.
export async function tokenizerFrom(source) {
  const text = `const module = { exports: {} }, { exports } = module, define = undefined;\n${source}\nexport default module.exports;\n`;
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return (await import(url)).default;
  } catch {
    return (await import(`data:text/javascript;charset=utf-8,${encodeURIComponent(text)}`)).default; // some browsers, from file://
  } finally {
    URL.revokeObjectURL(url);
  }
}
