/* Runs Python for a practice page: loads Pyodide, NumPy and the book's package, then answers requests (python.js).
 *
 * What is loaded is named in python/files.json, with sizes and SHA-256 hashes. Each file is checked before use, and the
 * browser keeps it, where it lets a page do so (from https:// and localhost). Pyodide fetches its own files, so while it starts,
 * `fetch` hands it those that are here already. The two modules can only be imported by their addresses.
 */

const SHELF = "glassformer-python "; // begins the names of our caches; the version of Python's files follows
const ENTRY = "pyodide.mjs";
const FOLDER = "/notebooks/exercises"; // where a practice notebook would be: links to chapters begin there

const say = (message) => self.postMessage(message);
const problem = (words) => Object.assign(new Error(words), { isPlain: true });

let desk = null; // glassformer.exercises.desk.Desk
let put = null; // puts an archive where Python finds modules
const arrived = new Set(); // the archives of data that are there
let asked = null; // the id of the request that is being answered

self.addEventListener("message", async ({ data }) => {
  try {
    if (data.do === "start") {
      desk = await open(data);
      say({ says: "ready" });
    } else {
      asked = data.id;
      for (const name of data.loads) await bringData(name);
      say({ id: asked, answer: JSON.parse(desk.ask(JSON.stringify(data.request))) });
    }
  } catch (error) {
    say({ says: "broken", text: error.isPlain ? error.message : String(error) });
  }
});

async function open({ python, package: ours, chapter, setup }) {
  const [about, book] = await Promise.all([json(new URL("files.json", python)), whole(ours)]);
  const files = await bring(python, about);
  const { loadPyodide } = await import(new URL(ENTRY, python));
  const pyodide = await withFiles(files, () => loadPyodide({ indexURL: python }));
  const extractDir = pyodide.runPython("import site; site.getsitepackages()[0]");
  put = (archive) => pyodide.unpackArchive(archive, format(archive), { extractDir });
  put(files.get(new URL(about.numpy, python).href));
  put(book);
  pyodide.runPython("import importlib; importlib.invalidate_caches()");
  const { Desk } = pyodide.pyimport("glassformer.exercises.desk");
  const folder = pyodide.pyimport("pathlib").Path(FOLDER);
  const tell = (text) => say({ id: asked, told: JSON.parse(text) });
  return Desk.callKwargs({ chapter, setup, folder, tell });
}

const isGzip = ([first, second]) => first === 0x1f && second === 0x8b;

/** How an archive is packed: a wheel is a zip, ours are .tgz, which some servers unpack on their own. */
const format = (bytes) => (bytes[0] === 0x50 ? "zip" : isGzip(bytes) ? "gztar" : "tar");

/** Brings data that a judge needs, such as a shipped model; the browser's own cache keeps it. */
async function bringData(name) {
  if (arrived.has(name)) return;
  put(await whole(new URL(`${name}.tgz`, self.location)));
  arrived.add(name);
}

// --- files -------------------------------------------------------------------------------------------------

/** Returns all files by their addresses, each from where the browser keeps it, or else from the site. */
async function bring(python, { version, files }) {
  const shelf = await openShelf(version);
  const total = files.reduce((sum, file) => sum + sent(file).bytes, 0);
  let loaded = 0;
  const tell = (more) => {
    loaded = Math.min(loaded + more, total); // some servers unpack what they send
    say({ says: "loading", loaded, total });
  };
  const brought = new Map();
  const missing = [];
  for (const file of files) {
    const url = new URL(file.name, python).href;
    const kept = await shelf.get(url, file);
    if (kept) brought.set(url, kept);
    else missing.push({ url, file });
  }
  tell(total - missing.reduce((sum, { file }) => sum + sent(file).bytes, 0));
  const load = async ({ url, file }) => {
    const bytes = await unpacked(await whole(new URL(sent(file).name, python), tell));
    if (!(await isRight(bytes, file))) throw problem(`The file ${file.name} arrived damaged. Try again.`);
    brought.set(url, bytes);
    await shelf.put(url, bytes);
  };
  await Promise.all(missing.map(load));
  return brought;
}

/** The file that is sent for a file: itself, or its compressed copy. */
const sent = (file) => file.packed ?? file;

/** The bytes of a file that may be compressed. If it is damaged, they are not those that were meant, which is found later. */
async function unpacked(bytes) {
  if (!isGzip(bytes)) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer().catch(() => new ArrayBuffer(0)));
}

/** Where the browser keeps files; where it keeps none, or has no room, all of them are loaded each time. */
async function openShelf(version) {
  try {
    const name = SHELF + version;
    const old = (await caches.keys()).filter((each) => each.startsWith(SHELF) && each !== name);
    await Promise.all(old.map((each) => caches.delete(each)));
    const cache = await caches.open(name);
    return {
      async get(url, file) {
        const bytes = new Uint8Array((await (await cache.match(url))?.arrayBuffer()) ?? 0);
        return bytes.length && (await isRight(bytes, file)) ? bytes : null;
      },
      put: (url, bytes) => cache.put(url, new Response(bytes)).catch(() => {}),
    };
  } catch {
    return { get: async () => null, put: async () => {} };
  }
}

/** Whether a file is the one that was meant. Browsers compute hashes only for pages from https:// and localhost. */
async function isRight(bytes, { bytes: size, sha256 }) {
  if (bytes.length !== size) return false;
  if (!crypto.subtle) return true;
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("") === sha256;
}

const LOST = "The connection failed while Python was loading. Check it, then try again.";

async function get(url) {
  const answer = await fetch(url).catch(() => null);
  if (!answer) throw problem(LOST);
  if (!answer.ok) throw problem(`A file is missing from this site: ${url} (${answer.status}).`);
  return answer;
}

const json = async (url) => (await get(url)).json();

async function whole(url, tell = () => {}) {
  const reader = (await get(url)).body.getReader();
  const chunks = [];
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      chunks.push(part.value);
      tell(part.value.length);
    }
  } catch {
    throw problem(LOST);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

/** Runs something whose fetches of these files are answered with what is here already. */
async function withFiles(files, run) {
  const { fetch } = self;
  self.fetch = async (resource, options) => {
    const url = new URL(resource.url ?? resource, self.location).href;
    const type = url.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
    return files.has(url) ? new Response(files.get(url), { headers: { "Content-Type": type } }) : fetch(resource, options);
  };
  try {
    return await run();
  } finally {
    self.fetch = fetch;
  }
}
