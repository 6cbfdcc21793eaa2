// A trained model in one picture, reading the reader's text. See glass_machine.py.
import { largest, mulberry32, range } from "./kit/maths.js";
import { button, fixed, frame, h, hold, onResize, percent, put, redrawing, slider, write } from "./kit/kit.js";
import { cividis, diverging, legend, paint, palette } from "./kit/plot.js";
import { shade, shareBar } from "./kit/shares.js";
import { alphabet, named, streamsOf, unpacked, visible } from "./engine/model.js";
import { Reading, windowStart } from "./engine/reading.js";
import { textField } from "./engine/text_field.js";
import { reasonOf, weightsFor } from "./engine/weights.js";
import { distribution, draw as drawId, softmax } from "./engine/transformer.js";

const SHOWN = 4; // characters that could come next
const FULL = { stream: 4, neurons: 8 }; // as in glass_machine.py
const BINS = { stream: 32, neurons: 43 };
const CELL = 16; // the smallest width of a character in pixels

// --- how a vector is drawn ----------------------------------------------------------------------------------------

const rms = (vector) => Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0) / vector.length);

// Colours from −1 to 1, one for each run of features: the strongest of the run, relative to FULL times the typical size.
export function picture(vector, kind) {
  const full = rms(vector) * FULL[kind];
  const each = Math.ceil(vector.length / BINS[kind]);
  return range(Math.ceil(vector.length / each)).map((run) => {
    const strongest = vector.slice(run * each, (run + 1) * each).reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
    return Math.min(Math.max(strongest / full, -1), 1);
  });
}

// --- scenes: what is known of a text ----------------------------------------------------------------------------------

// The stored scene: pictures and the likeliest characters for the initial text.
function storedScene({ text, streams, neurons, weights, guesses, probabilities }) {
  const [stream, neuron, weight] = [streams, neurons, weights].map(unpacked);
  const T = guesses[0].length;
  const column = ({ shape, data }, i, t) => data.subarray((i * T + t) * shape[2], (i * T + t + 1) * shape[2]);
  const [, H, pairs] = weight.shape;
  return {
    text,
    T,
    stream: (depth, t) => column(stream, depth, t),
    neurons: (block, t) => column(neuron, block, t),
    weight: (block, head, t, s) => weight.data[(block * H + head) * pairs + (t * (t + 1)) / 2 + s] ** 2,
    guesses: (depth, t) => guesses[depth][t].map((id, i) => [id, probabilities[depth][t][i]]),
    exact: () => null,
  };
}

// What the engine computed at one position, from its trace.
function look(seen, transformer) {
  const arrays = (name, sublayer = null) =>
    seen.filter((one) => one.name === name && (sublayer ?? one.sublayer) === one.sublayer).map(({ array }) => array);
  const streams = streamsOf(seen);
  const probabilities = streams.map((stream) => softmax(transformer.lens(stream)));
  return {
    streams,
    weights: arrays("weights"),
    neurons: arrays("neurons"),
    writes: { attention: arrays("write", "attention"), feedforward: arrays("write", "feed-forward") },
    pictures: {
      stream: streams.map((vector) => picture(vector, "stream")),
      neurons: arrays("neurons").map((vector) => picture(vector, "neurons")),
    },
    probabilities,
    guesses: probabilities.map((p) => largest(p, SHOWN).map((id) => [id, p[id]])),
  };
}

// What the engine has read so far.
function liveScene(text, reading, H) {
  const { positions } = reading;
  return {
    text,
    T: positions.length,
    stream: (depth, t) => positions[t].pictures.stream[depth],
    neurons: (block, t) => positions[t].pictures.neurons[block],
    weight: (block, head, t, s) => positions[t].weights[block][(head * positions[t].weights[block].length) / H + s],
    guesses: (depth, t) => positions[t].guesses[depth],
    exact: (t) => positions[t],
  };
}

// --- colours ----------------------------------------------------------------------------------------------------------

const STEPS = 256;
const SIGNED = palette(diverging, range(STEPS).map((i) => (2 * i) / (STEPS - 1) - 1));
const SHARES = palette(cividis, range(STEPS).map((i) => i / (STEPS - 1)));
const signedColour = (value) => SIGNED[Math.round(((value + 1) / 2) * (STEPS - 1))];
const shareColour = (share) => SHARES[Math.round(Math.sqrt(share) * (STEPS - 1))]; // the square root makes small shares visible

// --- words ------------------------------------------------------------------------------------------------------------

const shortened = (text) => (text.length > 40 ? `… ${text.slice(-38)}` : text);
const back = (steps) => (steps === 0 ? "itself" : steps === 1 ? "one back" : `${steps} back`);

// The contents of the stream after `depth` blocks. Blocks, heads and positions are counted from 0, as in Python.
const where = (depth) => (depth === 0 ? "before block 0" : `after block ${depth - 1}`);

function partName(part) {
  const [kind, first, second] = part.split(" ");
  if (kind === "text") return "the characters";
  if (kind === "stream") return `the stream ${where(+first)}`;
  if (kind === "guess") return `the guess ${where(+first)}`;
  return kind === "head" ? `block ${first}, head ${second}` : `block ${first}, feed-forward`;
}

// --- the view ---------------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const view = frame(el, {
    title: "The glass machine: a Transformer reading your text",
    hint: "Type, and watch it read. Point at any part to open it below; or press Tab, and then the arrow keys.",
  });
  const config = model.get("_config");
  const { n_layers: L, n_heads: H, d_ff: F, d_model: D, context_length: context } = config;
  const { known, ids: idsOf } = alphabet(model.get("_characters"));
  const stored = storedScene(model.get("_stored"));
  const send = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };

  // What is drawn: no more of the text than the model's context.
  const windowOf = (text) => text.slice(windowStart(text.length, context));
  let scene = stored;
  let pointed = null; // { part, position } under the pointer
  let trouble = null; // the problem, in words
  const weights = weightsFor(model, { view, told: () => drawn.ask(), again: () => read() });
  let reading = null; // once the weights are here

  const text = () => model.get("text");
  const hidden = () => text().length - windowOf(text()).length; // characters that it can no longer see
  const pinned = () => {
    const last = scene.T - 1;
    const position = Math.min(model.get("position") - hidden(), last);
    return { part: model.get("part"), position: position < 0 ? last : position };
  };
  const chosen = () => {
    const now = pointed ?? pinned();
    return { ...now, position: Math.min(now.position, scene.T - 1) };
  };
  const character = (t) => scene.text[t];

  // --- controls ---

  const own = textField(model, {
    label: "Your text",
    changes: (text) => ({ position: text.length - 1, part: `guess ${L}` }),
  });
  const writeOne = async () => {
    if (!(await read())) return;
    const { probabilities } = reading.positions.at(-1);
    const p = distribution(probabilities[L].map(Math.log), { temperature: model.get("temperature") });
    const next = known[drawId(p, mulberry32(model.get("drawn"))())];
    own.append(next);
    send({ drawn: model.get("drawn") + 1 });
  };
  let writing = Promise.resolve(); // one character after another, however fast the button is pressed
  const writeNext = () => (writing = writing.then(writeOne));
  view.controls.classList.add("gf-machine-controls");
  view.controls.append(
    own.control,
    h("div", { class: "gf-buttons" }, button("Write", writeNext), button("Back", own.takeBack)),
    slider(model, "temperature", { label: "Temperature", min: 0, max: 2, step: 0.1, format: (x) => fixed(x, 1) }),
    slider(model, "position", {
      label: "Position",
      min: hidden,
      max: () => text().length - 1,
      format: (p) => String(Math.min(p, text().length - 1)),
      follows: ["text"],
    }),
  );

  // --- the machine, built once ---

  view.drawing.setAttribute("role", "group");
  const parts = new Map(); // name -> its button
  const part = (name, style, ...inside) => {
    const element = h(
      "button",
      { type: "button", class: `gf-part ${style}`, tabindex: -1, "data-part": name, onclick: () => pin(name) },
      inside,
    );
    parts.set(name, element);
    return element;
  };
  const pixels = () => h("canvas", { class: "gf-picture", "aria-hidden": "true" });
  const marked = (style) => [pixels(), h("span", { class: style, "aria-hidden": "true" })];
  const cells = () => h("span", { class: "gf-cells", "aria-hidden": "true" });
  const ring = () => h("span", { class: "gf-ring", "aria-hidden": "true" });

  const lane = (depth) =>
    h("div", { class: "gf-lane" }, part(`stream ${depth}`, "gf-stream", pixels(), ring()), part(`guess ${depth}`, "gf-guess", cells(), ring()));
  const block = (b) =>
    h(
      "div",
      { class: "gf-block" },
      h("span", { class: "gf-block-name" }, `Block ${b}`),
      h("div", { class: "gf-heads" }, range(H).map((head) => part(`head ${b} ${head}`, "gf-head", marked("gf-row")))),
      part(`feedforward ${b}`, "gf-feedforward", marked("gf-column")),
      h("div", { class: "gf-bars", "aria-hidden": "true" }),
    );
  const band = h("div", { class: "gf-band", "aria-hidden": "true" });
  const tower = h(
    "div",
    { class: "gf-tower" },
    band,
    h("div", { class: "gf-lane" }, part("text", "gf-characters", cells(), ring())),
    lane(0),
    h("div", { class: "gf-block gf-captions" }, ["", "heads", "feed-forward", "guesses"].map((word) => h("span", {}, word))),
    range(L).map((b) => [block(b), lane(b + 1)]),
  );
  const earlier = h("p", { class: "gf-earlier" }); // characters that do not fit into the drawing
  const detail = h("div", { class: "gf-detail" });
  view.drawing.append(
    earlier,
    tower,
    h(
      "div",
      { class: "gf-key" },
      legend((x) => diverging(2 * x - 1), "−", "+", h("span", {}, "Stripes: the stream, a vector for each character")),
      legend(shade, "unsure", "sure", h("span", {}, "Letters below: what it would write next if it stopped there")),
      legend(cividis, "looks away", "looks there", h("span", {}, "Triangles: heads; row by row, where each character looks")),
    ),
    detail,
  );

  // Rows of parts for the arrow keys; except in blocks, left and right go from character to character.
  const rows = [["text"], ["stream 0"], ["guess 0"]];
  range(L).forEach((b) => {
    rows.push([...range(H).map((head) => `head ${b} ${head}`), `feedforward ${b}`]);
    rows.push([`stream ${b + 1}`], [`guess ${b + 1}`]);
  });

  function pin(name, position = chosen().position) {
    pointed = null;
    send({ part: name, position: position + hidden() });
  }

  tower.addEventListener("keydown", (event) => {
    const name = event.target.dataset.part;
    const row = rows.findIndex((names) => names.includes(name));
    const column = rows[row]?.indexOf(name);
    const { position } = pinned();
    const alongText = rows[row]?.length === 1 || event.shiftKey;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const floor = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (row < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    let next = null;
    if (event.key === "Home" || event.key === "End") pin(name, event.key === "Home" ? 0 : scene.T - 1);
    else if (step && alongText) pin(name, Math.min(Math.max(position + step, 0), scene.T - 1));
    else if (step) next = rows[row][column + step];
    else if (floor) next = rows[row + floor]?.[Math.min(column, rows[row + floor].length - 1)];
    else return;
    event.preventDefault();
    if (!next) return;
    pin(next);
    parts.get(next).focus();
  });

  // The part and the position under the pointer.
  function under(event) {
    const element = event.target.closest?.("[data-part]");
    if (!element || !tower.contains(element)) return null;
    const name = element.dataset.part;
    const box = element.getBoundingClientRect();
    const share = (value, from, size, count) => Math.min(Math.max(Math.floor(((value - from) / size) * count), 0), count - 1);
    if (name.startsWith("head")) return { part: name, position: share(event.clientY, box.y, box.height, scene.T) };
    if (name.startsWith("feedforward")) return { part: name, position: share(event.clientX, box.x, box.width, scene.T) };
    const { first, count } = columns();
    return { part: name, position: Math.min(first + share(event.clientX, box.x, box.width, count), scene.T - 1) };
  }
  tower.addEventListener("pointermove", (event) => {
    const now = under(event);
    if (now?.part === pointed?.part && now?.position === pointed?.position) return;
    pointed = now;
    if (now) read();
    drawn.ask();
  });
  tower.addEventListener("pointerleave", () => {
    pointed = null;
    drawn.ask();
  });
  tower.addEventListener("pointerup", (event) => {
    const now = under(event);
    if (now) pin(now.part, now.position);
  });
  tower.addEventListener("focusin", () => read());

  // --- reading ---

  // Let the model read the current text. Returns whether it was read to the end; calls in between share the result.
  let underway = null; // { wanted, arrives }
  function read() {
    const wanted = text();
    if (underway?.wanted !== wanted) {
      const now = { wanted, arrives: readThrough(wanted).finally(() => underway === now && (underway = null)) };
      underway = now;
    }
    return underway.arrives;
  }

  async function readThrough(wanted) {
    if (windowOf(wanted) === scene.text && reading) return true;
    view.busy("text", true);
    try {
      if (!reading) {
        drawn.ask();
        const transformer = await weights.model();
        reading ??= new Reading(transformer, look);
        trouble = null;
      }
    } catch (error) {
      trouble = reasonOf(error);
      view.busy("text", false);
      drawn.ask();
      return false;
    }
    const seen = windowOf(wanted);
    const show = () => {
      scene = liveScene(seen.slice(0, reading.positions.length), reading, H);
      drawn.ask();
    };
    const arrived = await reading.read(idsOf(seen), show);
    if (!arrived) return false; // a later call continues
    view.busy("text", false);
    show();
    return text() === wanted;
  }

  // --- drawing ---

  // The characters that have a column: as many as fit, around the chosen one.
  function columns() {
    const fit = Math.max(8, Math.floor(tower.clientWidth / CELL));
    const count = Math.min(fit, Math.max(scene.T, 12));
    const { position } = pinned(); // what is pointed at stays under the pointer
    const first = Math.min(Math.max(0, position - Math.floor(count * 0.7)), Math.max(0, scene.T - count));
    return { first, count };
  }

  const painted = new WeakMap(); // canvas -> what it shows
  function picturePart(name, key, rowCount, columnCount, colour) {
    const canvas = parts.get(name).querySelector("canvas");
    if (painted.get(canvas) === key) return;
    painted.set(canvas, key);
    paint(canvas, rowCount, columnCount, colour);
  }

  let version = 0; // of the scene: pictures change only with it
  let pictured = null; // the scene with that version
  let lettered = null; // the guesses that are written

  function drawPictures({ first, count }) {
    const { T } = scene;
    if (pictured !== scene) [pictured, version] = [scene, version + 1];
    const shown = Math.min(count, T - first);
    range(L + 1).forEach((depth) => {
      const vectors = range(shown).map((i) => scene.stream(depth, first + i));
      const colour = (row, i) => (i < shown ? signedColour(vectors[i][row]) : 0);
      picturePart(`stream ${depth}`, `${version} ${first} ${count}`, vectors[0].length, count, colour);
    });
    range(L).forEach((b) => {
      range(H).forEach((head) => {
        const colour = (t, s) => (s <= t ? shareColour(scene.weight(b, head, t, s)) : 0);
        picturePart(`head ${b} ${head}`, version, T, T, colour);
      });
      const vectors = range(T).map((t) => scene.neurons(b, t));
      picturePart(`feedforward ${b}`, version, vectors[0].length, T, (row, t) => signedColour(vectors[t][row]));
    });
  }

  function fill(element, count, what) {
    while (element.children.length < count) element.append(h("span"));
    while (element.children.length > count) element.lastChild.remove();
    [...element.children].forEach((cell, i) => {
      const { letter = "", share = 0, style = "" } = what(i) ?? {};
      write(cell, letter);
      put(cell, { style: `--share: ${share.toFixed(3)}`, class: style });
    });
  }

  function drawLetters({ first, count }, { part: name, position }) {
    const lit = litCharacters(name, position);
    fill(parts.get("text").firstChild, count, (i) => {
      const t = first + i;
      if (t >= scene.T) return null;
      return { letter: visible(character(t)), share: lit(t), style: t === position ? "gf-here" : "" };
    });
    const seen = `${version} ${first} ${count}`;
    if (lettered !== seen) {
      lettered = seen;
      range(L + 1).forEach((depth) => {
        fill(parts.get(`guess ${depth}`).firstChild, count, (i) => {
          if (first + i >= scene.T) return null;
          const [id, p] = scene.guesses(depth, first + i)[0];
          return { letter: visible(known[id]), share: p };
        });
      });
    }
    tower.querySelectorAll(".gf-bars").forEach((bars, b) => {
      const guesses = scene.guesses(b + 1, position).slice(0, 3);
      hold(bars, guesses.flat(), () => guesses.map(([id, p]) => bar(known[id], p)));
    });
  }

  const bar = (letter, p) => shareBar(visible(letter), p);

  // How strongly each character lights up: by the weight of a head, or because the part depends on it.
  function litCharacters(name, position) {
    const [kind, b, head] = name.split(" ");
    if (kind === "head") return (t) => (t <= position ? Math.sqrt(scene.weight(+b, +head, position, t)) : 0);
    return (t) => (t === position ? 1 : 0);
  }

  // The parts that it depends on directly.
  function dependsOn(name) {
    const [kind, number] = name.split(" ");
    const n = Number(number);
    if (kind === "guess") return [`stream ${n}`];
    if (kind === "head" || kind === "feedforward") {
      return [`stream ${n}`, ...(kind === "feedforward" ? range(H).map((head) => `head ${n} ${head}`) : [])];
    }
    if (kind === "text") return [];
    if (n === 0) return ["text"];
    return [`stream ${n - 1}`, ...range(H).map((head) => `head ${n - 1} ${head}`), `feedforward ${n - 1}`];
  }

  function drawMarks({ first, count }, { part: name, position }) {
    const lit = new Set(dependsOn(name));
    const column = (from, to) => {
      const [left, right] = [Math.max(from, 0), Math.min(to, count)]; // of those that have a column
      return right > left ? `left: ${(100 * left) / count}%; width: ${(100 * (right - left)) / count}%` : "display: none";
    };
    const one = column(position - first, position - first + 1);
    const seen = name.startsWith("head") ? column(0, position - first + 1) : one; // a head attends up to its own position
    put(band, { style: one });
    for (const [other, element] of parts) {
      const [open, depended] = [other === name, lit.has(other)];
      element.classList.toggle("gf-open", open);
      element.classList.toggle("gf-lit", depended);
      put(element, { "aria-pressed": open, tabindex: other === model.get("part") ? 0 : -1 });
      const around = element.querySelector(".gf-ring");
      if (around) put(around, { style: open ? one : seen });
    }
    const [at, size] = [(100 * position) / scene.T, 100 / scene.T];
    tower.querySelectorAll(".gf-row").forEach((mark) => put(mark, { style: `top: ${at}%; height: ${size}%` }));
    tower.querySelectorAll(".gf-column").forEach((mark) => put(mark, { style: `left: ${at}%; width: ${size}%` }));
  }

  // --- the part that is open ---

  const barcode = (vector) => {
    const canvas = h("canvas", { class: "gf-picture gf-barcode", "aria-hidden": "true" });
    const full = rms(vector) * FULL[vector.length === D ? "stream" : "neurons"];
    const half = Math.ceil(vector.length / 4);
    const colour = (row, i) => {
      const at = row * half + i;
      return at < vector.length ? signedColour(Math.min(Math.max(vector[at] / full, -1), 1)) : 0;
    };
    paint(canvas, 4, half, colour);
    return canvas;
  };
  const strongest = (vector, count) => largest(vector.map(Math.abs), count);
  const lookedAt = (b, head, t) =>
    range(t + 1)
      .map((s) => [s, scene.weight(b, head, t, s)])
      .sort((x, y) => y[1] - x[1]);

  const numberOf = (x) => fixed(x, 2);
  const facts = (...pairs) =>
    h("dl", { class: "gf-facts" }, pairs.map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));

  function contents({ part: name, position: t }) {
    const [kind, first, second] = name.split(" ");
    const n = Number(first);
    const exact = scene.exact(t);
    if (kind === "guess") {
      const p = exact?.probabilities[n];
      const shown = p ? largest(p, 10).map((id) => [id, p[id]]) : scene.guesses(n, t);
      return [h("div", { class: "gf-bars gf-many" }, shown.map(([id, share]) => bar(known[id], share)))];
    }
    if (kind === "head") {
      const looks = lookedAt(n, +second, t).slice(0, 8);
      return [h("div", { class: "gf-bars gf-many gf-looks" }, looks.map(([s, share]) => bar(character(s), share)))];
    }
    if (!exact) return [h("p", { class: "gf-waiting" }, weights.words() || trouble || "Its numbers come with the model.")];
    if (kind === "text") return [barcode(exact.streams[0]), facts(["id", idsOf(character(t))[0]], ["numbers", D])];
    if (kind === "stream") {
      const vector = exact.streams[n];
      const wrote = n ? ["attention", "feedforward"].map((from) => Math.hypot(...exact.writes[from][n - 1])) : null;
      return [
        barcode(vector),
        facts(
          ["numbers", D],
          ["length", numberOf(Math.hypot(...vector))],
          ...(wrote ? [["attention wrote", numberOf(wrote[0])], ["feed-forward wrote", numberOf(wrote[1])]] : []),
        ),
      ];
    }
    const vector = exact.neurons[n];
    const best = strongest(vector, 4);
    return [
      barcode(vector),
      facts(["neurons", F], ...best.map((i) => [`neuron ${i}`, numberOf(vector[i])])),
    ];
  }

  function sentence({ part: name, position: t }) {
    const [kind, first, second] = name.split(" ");
    const n = Number(first);
    const here = `${named(character(t))}, position ${t + hidden()}`;
    const exact = scene.exact(t);
    if (kind === "text") {
      return `Position ${t + hidden()}: ${named(character(t))}. Its id, ${idsOf(character(t))[0]}, picks a row of the embedding table: ${D} numbers.`;
    }
    if (kind === "guess") {
      const [[id, p]] = scene.guesses(n, t);
      const [[last, pLast]] = scene.guesses(L, t);
      const now = n === L ? "the model writes" : `the model would write`;
      const truth = t + 1 < scene.T ? ` In the text comes ${named(character(t + 1))}.` : "";
      const end = n === L ? "" : ` After all ${L}: ${named(known[last])}, ${percent(pLast)}.`;
      return `At ${here}: ${n === L ? `after all ${L} blocks` : `if it stopped ${where(n)}`} ${now} ${named(known[id])} next, with ${percent(p)}.${end}${truth}`;
    }
    if (kind === "head") {
      const looks = lookedAt(n, +second, t).slice(0, 2).map(([s, w]) => `${percent(w)} at ${named(character(s))}, ${back(t - s)}`);
      return `Block ${n}, head ${second}, at ${here}: it looks ${looks.join(", and ")}.`;
    }
    if (kind === "feedforward") {
      const told = exact ? strongest(exact.neurons[n], 1).map((i) => ` The strongest of its ${F} neurons is ${i}, at ${numberOf(exact.neurons[n][i])}.`) : "";
      return `Block ${n}, feed-forward, at ${here}: it sees this position alone.${told}`;
    }
    if (n === 0) return `The stream at ${here}, before block 0: the vector of the character itself, and nothing of the others yet.`;
    return `The stream at ${here}, ${where(n)}: what it was, plus what the heads and the feed-forward network wrote.`;
  }

  const tables = ({ position: t }) => [
    {
      caption: `What the model would write after ${named(character(t))}, position ${t + hidden()}`,
      headers: ["After", ...range(SHOWN).flatMap((i) => [`${i + 1}.`, "share"])],
      rows: () =>
        range(L + 1).map((depth) => [
          depth ? `block ${depth - 1}` : "no block",
          ...scene.guesses(depth, t).flatMap(([id, p]) => [visible(known[id]), fixed(p, 4)]),
        ]),
    },
    {
      caption: "Where its heads look most",
      headers: ["Block, head", "at", "steps back", "share", "then at", "steps back", "share"],
      rows: () =>
        range(L).flatMap((b) =>
          range(H).map((head) => [
            `${b}, ${head}`,
            ...lookedAt(b, head, t)
              .slice(0, 2)
              .flatMap(([s, share]) => [visible(character(s)), t - s, fixed(share, 3)]),
          ]),
        ),
    },
  ];

  function draw() {
    const now = chosen();
    const place = columns();
    drawPictures(place);
    drawLetters(place, now);
    drawMarks(place, now);
    const unread = windowOf(text()).length - scene.T;
    const lost = hidden();
    hold(earlier, [lost, place.first, place.count, scene.T], () => [
      lost > 0 && [`The model sees the last ${windowOf(text()).length} characters. Out of its sight: `, h("s", {}, shortened(text().slice(0, lost)))],
      scene.T > place.count &&
        h("span", {}, `Here are positions ${lost + place.first} to ${lost + place.first + place.count - 1}; the drawing follows the one you choose.`),
    ]);
    earlier.hidden = !lost && scene.T <= place.count;
    hold(detail, [now.part, now.position, version, Boolean(scene.exact(now.position)), trouble, weights.words()], () => [
      h("p", { class: "gf-detail-name" }, partName(now.part)),
      contents(now),
    ]);
    view.says(weights.words() || trouble || (unread > 0 && !pointed ? `Reading, ${unread} characters to go …` : sentence(now)));
    view.describe(() => `The machine reading “${scene.text}”; open is ${partName(now.part)}, at position ${now.position}`);
    for (const [name, element] of parts) put(element, { "aria-label": partName(name) });
    view.tables(() => tables(chosen())); // called later, perhaps for another text
  }

  const drawn = redrawing(model, ["text", "position", "part"], draw);
  const follow = () => (windowOf(text()) === scene.text ? drawn.ask() : read());
  model.on("change:text", follow);
  const stopResizing = onResize(tower, drawn.ask);
  own.start();
  return () => {
    own.stop();
    model.off("change:text", follow);
    stopResizing();
    weights.stop();
    drawn.stop();
  };
}

export default { render };
