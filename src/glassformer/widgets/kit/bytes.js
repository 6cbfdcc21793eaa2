// Bytes of a text, and how a few of them are shown to a reader.

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const utf8 = (text) => encoder.encode(text);

// In readable form: spaces and line ends are visible, and bytes that make no character, or none that one can see, are numbers.
export function legible(bytes) {
  const inNumbers = Array.from(bytes, (byte) => `‹${byte.toString(16).padStart(2, "0")}›`).join("");
  try {
    const text = decoder.decode(bytes).replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
    return /^[\p{C}\p{M}]*$/u.test(text) ? inNumbers : text;
  } catch {
    return inNumbers;
  }
}
