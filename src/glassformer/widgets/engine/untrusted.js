// What a page checks of files and texts whose author is unknown, in the words of glassformer/untrusted_files.py.

// How files begin that are taken for others, and what they are: tests/widgets/test_model_file.py compares this table with Python's.
export const SIGNS = [
  ["version https://git-lfs", "a pointer of Git LFS in place of the file itself, which `git lfs pull` fetches"],
  ["<!DOCTYPE html", "a web page: download the file itself, not the page that shows it"],
  ["<html", "a web page: download the file itself, not the page that shows it"],
  ["GGUF", "a GGUF file of llama.cpp"],
  ["PK\x03\x04", "a zip archive, which PyTorch's pickles are, too"],
  ["\x80", "a pickle of Python, which can run any program when it is opened"],
  ["\x89HDF", "an HDF5 file, as TensorFlow writes it"],
  ["\x93NUMPY", "an array of NumPy"],
  ["\x1f\x8b", "compressed (gzip)"],
  ["\x08", "a file of ONNX"],
  ["%PDF", "a PDF"],
  ["\x89PNG", "a picture"],
];
export const TENSORS = "a file of weights (safetensors)";
export const BEGIN = 64; // bytes that are enough to tell

// What a file is that begins with these bytes, or "".
export function named(bytes) {
  const first = String.fromCharCode(...bytes.subarray(0, BEGIN));
  if (first[8] === "{" && first.slice(0, 8).includes("\0")) return TENSORS;
  const begin = first.replace(/^\xef\xbb\xbf/, "").replace(/^[ \t-\r]+/, "").toLowerCase();
  return SIGNS.find(([sign]) => begin.startsWith(sign.toLowerCase()))?.[1] ?? "";
}

export const namedText = (text) => named(new TextEncoder().encode(text.slice(0, BEGIN)));

// A name or a value from outside in a sentence: shortened, and without control characters.
export const shown = (given) => {
  const text = typeof given === "string" ? given : inJson(given);
  return (text.length > 100 ? `${text.slice(0, 50)} … ${text.slice(-50)}` : text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "�");
};

export const inJson = (given) => JSON.stringify(given) ?? "undefined";

// What is wrong with a JSON text if an object in it has a field twice, of which JSON.parse would take the last; "" otherwise.
export function twice(text, name) {
  const field = fieldTwice(text);
  return field === null ? "" : `${name} has the field '${shown(field)}' twice in one object`;
}

function fieldTwice(text) {
  const around = []; // the fields of each object that has begun and not ended; null for a list
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "{") around.push(new Set());
    else if (text[i] === "[") around.push(null);
    else if (text[i] === "}" || text[i] === "]") around.pop();
    if (text[i] !== '"') continue;
    const from = i;
    while (text[++i] !== '"') if (text[i] === "\\") i++;
    let next = i + 1;
    while (" \t\r\n".includes(text[next])) next++;
    if (text[next] !== ":") continue;
    const [fields, field] = [around.at(-1), JSON.parse(text.slice(from, i + 1))];
    if (fields.has(field)) return field;
    fields.add(field);
  }
  return null;
}
