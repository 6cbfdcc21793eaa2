// One diagram for three families: the boxes used, who may attend to whom, and the training targets. See wiring_switcher.py.
import { range } from "../../widgets/kit/maths.js";
import { choice, frame, grouped, h, hold, put, redrawing, setAll, slider, svg, textField, uniqueId, write } from "../../widgets/kit/kit.js";
import { named, visible } from "../../widgets/engine/model.js";
import { line, words } from "../../widgets/kit/plot.js";

const LONGEST = 12; // characters of a text, as in wiring_switcher.py
const [START, STOP, COVER, PAD] = ["▷", "■", "▁", "∅"];
const FAMILIES = [
  ["decoder", "Decoder"],
  ["encoder", "Encoder"],
  ["encoder-decoder", "Encoder–decoder"],
];
const MASKS = ["encoder", "decoder", "cross"];

// --- maths ----------------------------------------------------------------------------------------------------------

// How many characters all positions see, before and after themselves.
const prefixOf = ({ family, text, prefix }) => (family === "decoder" ? Math.min(prefix, [...text].length) : 0);

// What each stack reads and should predict, one character for each position; null if it is not used, or has no target.
export function texts(state) {
  const { family, text, source, padding } = state;
  const [characters, seen] = [[...text], prefixOf(state)];
  const pads = Array(padding).fill(PAD);
  const none = Array(padding).fill(null);
  if (family === "encoder") {
    const isCovered = (t) => t % 6 === Math.min(2, characters.length - 1);
    return {
      encoder: {
        reads: [...characters.map((character, t) => (isCovered(t) ? COVER : character)), ...pads],
        says: [...characters.map((character, t) => (isCovered(t) ? character : null)), ...none],
      },
    };
  }
  if (family === "decoder") {
    const says = [...characters.slice(1), "?"].map((character, t) => (t < seen - 1 ? null : character));
    return { decoder: { reads: [...characters, ...pads], says: [...says, ...none] } };
  }
  const read = [...source, ...pads];
  return {
    encoder: { reads: read, says: read.map(() => null) },
    decoder: { reads: [START, ...characters, ...pads], says: [...characters, STOP, ...none] },
  };
}

// The characters before, and the prefix.
const causal = (T, prefix) => range(T).map((t) => range(T).map((s) => s <= t || s < prefix));

// The masks of a family: true if a query (a row) may attend to a key (a column).
export function masks(state) {
  const { encoder, decoder } = texts(state);
  const seen = prefixOf(state);
  const real = (queries, keys) => queries.map(() => keys.map((key) => key !== PAD));
  const found = {};
  if (encoder) found.encoder = real(encoder.reads, encoder.reads);
  if (decoder) found.decoder = causal(decoder.reads.length, seen);
  if (encoder && decoder) found.cross = real(decoder.reads, encoder.reads);
  return found;
}

// --- words ----------------------------------------------------------------------------------------------------------

const SIGNS = { [START]: "the start", [STOP]: "the stop", [COVER]: "covered", [PAD]: "padding", "?": "what comes next" };
const sign = (character) => SIGNS[character] ?? named(character);
const ofStack = (family, stack) => (family !== "encoder-decoder" ? "text" : stack === "encoder" ? "source" : "target");

// "0…3 and 6" for positions in order.
export function runs(positions) {
  const found = [];
  for (const t of positions) {
    if (found.at(-1)?.[1] === t - 1) found.at(-1)[1] = t;
    else found.push([t, t]);
  }
  return found.map(([from, to]) => (from === to ? `${from}` : `${from}…${to}`)).join(" and ");
}

function readInWords(row, { reads }, name) {
  const seen = range(row.length).filter((s) => row[s]);
  const isAll = reads.every((character, s) => row[s] === (character !== PAD));
  return isAll ? `all ${seen.length} of the ${name}` : `${name} ${runs(seen)}`;
}

// Why a cell is masked or not.
function cellInWords(state, { mask, query, key }, found, reads) {
  const allowed = found[mask][query][key];
  if (!allowed) return reads === PAD ? "it is padding" : "it comes later";
  if (mask !== "decoder" || key <= query) return null;
  return "it belongs to the prefix";
}

function sentence(state, chosen, found, stacks) {
  const { mask, query, key } = chosen;
  const side = mask === "encoder" ? "encoder" : "decoder";
  const stack = stacks[side];
  const name = ofStack(state.family, side);
  const own = readInWords(found[side][query], stack, name);
  const other = side === "decoder" && found.cross ? ` and ${readInWords(found.cross[query], stacks.encoder, "source")}` : "";
  const says = stack.says[query];
  const keys = mask === "cross" ? "encoder" : side;
  const why = cellInWords(state, chosen, found, stacks[keys].reads[key]);
  const cell = `It ${found[mask][query][key] ? "may" : "may not"} read ${mask === "cross" ? "source" : name} ${key}, ${sign(stacks[keys].reads[key])}${why ? `: ${why}` : ""}.`;
  const trained = stack.reads[query] === PAD ? "The loss ignores it." : says ? `It is trained to predict ${sign(says)}.` : "It has no target.";
  return `Position ${query} of the ${name}, ${sign(stack.reads[query])}, reads ${own}${other}. ${cell} ${trained}`;
}

function training(state) {
  const { family, padding } = state;
  const ends = padding ? ` Padding (${PAD}) has no target, and no real position reads it.` : "";
  if (family === "encoder") return `Trained on randomly chosen characters, most of them covered (${COVER}): the original characters are the targets, and all other positions have none.${ends}`;
  if (family === "decoder") {
    const which = prefixOf(state) > 1 ? "every position from the prefix’s last on predicts" : "every position predicts";
    return `Trained on the next character: ${which} what comes after it.${ends}`;
  }
  return `Trained on pairs: the decoder reads a start (${START}) and the true target, and has to predict the target, one position ahead, and then a stop (${STOP}).${ends}`;
}

const KINDS = { encoder: "self-attention, both ways", decoder: "self-attention, causal", prefix: "self-attention, prefix", cross: "cross-attention" };

// --- the diagram ----------------------------------------------------------------------------------------------------

const SIZE = { width: 380, height: 494 };
const BOXES = { encoder: [22, 176], decoder: [204, 358] };
// The positions of the stream, next to the boxes.
const STREAM = { encoder: 11, decoder: 369 };
const WHOLE = { encoder: [2, 182], decoder: [198, 378] }; // the width of a block's frame
const middle = ([from, to]) => (from + to) / 2;
const AT = { says: 34, head: 62, letters: 448, embedding: 410, bottom: 392 };
const FINAL = { encoder: 196, decoder: 104 }; // top of the last norm, above the block
const NORM = 15;
const ATTENDS = 50; // the height of an attention box; the others are 22 high
// The sublayers, from the bottom: the top of each box; its norm is below it, its sum above it.
const TOPS = { encoder: 309, decoder: 309, cross: 217, ffEncoder: 245, ffDecoder: 153 };

const box = (x, y, width, height, role) => svg("rect", { x, y, width, height, rx: 5, class: `gf-wire-box gf-wire-${role}` });

function labelled([from, to], y, height, name, role) {
  return [box(from, y, to - from, height, role), words(name, (from + to) / 2, y + height / 2 + 4, "middle")];
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["family", "text", "source", "prefix", "padding", "mask", "query", "key"];

function render({ model, el }) {
  const view = frame(el, {
    title: "The wiring switcher: what can the same blocks become?",
    hint: "Choose a family; the parts that it does not use fade. Then click a position in the diagram or a cell of a mask, or use the arrow keys, to see what that position may read.",
  });
  const configs = model.get("_configs");
  view.drawing.setAttribute("role", "group");

  const stateNow = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  let pointed = null; // { mask, query, key } under the pointer
  // A cell that exists: in a mask of this family, within its rows and columns.
  function fitted({ mask, query, key }, found) {
    const has = found[mask] ? mask : found.decoder ? "decoder" : "encoder";
    const row = Math.min(query, found[has].length - 1);
    return { mask: has, query: row, key: Math.min(key, found[has][0].length - 1) };
  }
  const pinned = () => {
    const state = stateNow();
    return fitted(state, masks(state));
  };
  function pin(cell) {
    pointed = null;
    setAll(model, cell);
    drawn.ask();
  }
  function point(cell) {
    if (JSON.stringify(cell) === JSON.stringify(pointed)) return;
    pointed = cell;
    drawn.ask();
  }

  // --- controls

  const source = textField(model, "source", { label: "Source", maxLength: LONGEST });
  const text = textField(model, "text", { label: "Text, or target", maxLength: LONGEST });
  for (const field of [source, text]) {
    // A field may be empty while the reader types; the view then keeps its last text.
    field.addEventListener("input", (event) => event.target.value === "" && event.stopPropagation(), true);
    field.classList.add("gf-wire-field");
  }
  const prefix = slider(model, "prefix", {
    label: "Prefix, visible to all",
    min: 0,
    max: () => model.get("text").length,
    format: (n) => (n ? `${Math.min(n, model.get("text").length)} of ${model.get("text").length}` : "none"),
    follows: ["text"],
  });
  view.controls.append(
    h("div", { class: "gf-wire-family" }, choice(model, "family", { label: "Family", options: FAMILIES })),
    text,
    source,
    prefix,
    slider(model, "padding", { label: "Padding", min: 0, max: 3, format: (n) => ["none", "1 position"][n] ?? `${n} positions` }),
  );

  // --- diagram: every box once

  const [gEncoder, gDecoder, gCross, gMemory, gToHead] = range(5).map(() => svg("g"));
  const ids = Object.fromEntries(["stream", "branch", "key", "value"].map((style) => [style, uniqueId()]));
  const arrow = (points, style) => svg("polyline", { points: points.join(" "), class: `gf-wire-arrow gf-wire-${style}`, "marker-end": `url(#${ids[style]})` });
  const marker = ([style, id]) =>
    svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", class: `gf-wire-tip-${style}` }));
  const up = (side, from, to) => arrow([`${STREAM[side]},${from}`, `${STREAM[side]},${to}`], "stream");

  const kind = { encoder: words("", 0, 0), decoder: words("", 0, 0), cross: words("", 0, 0) };
  const fans = Object.fromEntries(MASKS.map((mask) => [mask, svg("g")]));
  function attends(mask) {
    const side = mask === "encoder" ? "encoder" : "decoder";
    const [from, to] = BOXES[side];
    const label = kind[mask];
    for (const [name, value] of Object.entries({ x: middle(BOXES[side]), y: TOPS[mask] + 14, "text-anchor": "middle" })) label.setAttribute(name, value);
    return [box(from, TOPS[mask], to - from, ATTENDS, mask === "cross" ? "key" : "query"), fans[mask], label];
  }
  // From the stream through a norm and a box, whose output is added to the stream.
  function sublayer(side, top, height, boxes) {
    const [x, lane] = [middle(BOXES[side]), STREAM[side]];
    const below = top + height; // of the box
    const [norm, sum] = [below + 6, top - 7];
    const turn = norm + NORM + 6;
    return [
      arrow([`${lane},${turn}`, `${x},${turn}`, `${x},${norm + NORM + 1}`], "branch"),
      svg("line", { x1: x, x2: x, y1: norm, y2: below, class: "gf-wire-arrow gf-wire-branch" }),
      svg("polyline", { points: `${x},${top} ${x},${sum} ${lane},${sum}`, class: "gf-wire-arrow gf-wire-branch" }),
      labelled(BOXES[side], norm, NORM, "norm", "norm"),
      boxes,
      svg("circle", { cx: lane, cy: sum, r: 5, class: "gf-wire-sum" }),
      svg("path", { d: `M${lane - 3} ${sum}h6m-3 -3v6`, class: "gf-wire-plus" }),
    ].flat();
  }
  const frameOf = (side) => {
    const [from, to] = WHOLE[side];
    const top = FINAL[side] + NORM + 17;
    const [x, anchor] = side === "encoder" ? [to - 8, "end"] : [from + 8, "start"];
    return [
      svg("rect", { x: from, y: top, width: to - from, height: AT.bottom - top, rx: 9, class: "gf-wire-block" }),
      words(`${configs[side].blocks} blocks`, x, top + 13, anchor, "gf-wire-many"),
    ];
  };
  const signs = () => svg("g", { class: "gf-wire-signs" });
  const letters = { encoder: signs(), decoder: signs() };
  const targets = { encoder: signs(), decoder: signs() };
  const under = Object.fromEntries(Object.keys(BOXES).map((side) => [side, words("", middle(BOXES[side]), AT.letters + 39, "middle")]));
  const column = (side, ffTop) => [
    ...frameOf(side),
    arrow([`${middle(BOXES[side])},${AT.letters}`, `${middle(BOXES[side])},${AT.embedding + 23}`], "stream"),
    up(side, AT.embedding, FINAL[side] + NORM + 1),
    ...sublayer(side, TOPS[side], ATTENDS, attends(side)),
    ...sublayer(side, ffTop, 22, labelled(BOXES[side], ffTop, 22, "feed-forward", "feedforward")),
    ...labelled(WHOLE[side], FINAL[side], NORM, "norm", "norm"),
    letters[side],
    targets[side],
    under[side],
  ];

  gEncoder.append(...column("encoder", TOPS.ffEncoder));
  gDecoder.append(...column("decoder", TOPS.ffDecoder), up("decoder", FINAL.decoder, AT.head + 23));
  gCross.append(...sublayer("decoder", TOPS.cross, ATTENDS, attends("cross")));
  gMemory.append(
    words("keys, values", WHOLE.encoder[1], FINAL.encoder - 7, "end"),
    arrow([`${WHOLE.encoder[1]},${FINAL.encoder + 4}`, `${BOXES.decoder[0] - 1},${TOPS.cross + 14}`], "key"),
    arrow([`${WHOLE.encoder[1]},${FINAL.encoder + 11}`, `${BOXES.decoder[0] - 1},${TOPS.cross + 28}`], "value"),
  );
  gToHead.append(up("encoder", FINAL.encoder, AT.head + 23));

  const diagram = svg(
    "svg",
    { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, class: "gf-panel gf-wire-picture", "aria-hidden": "true" },
    svg("defs", {}, Object.entries(ids).map(marker)),
    gEncoder,
    gDecoder,
    gCross,
    gMemory,
    gToHead,
    labelled([WHOLE.encoder[0], WHOLE.decoder[1]], AT.embedding, 22, "embedding: one table for all", "residual"),
    labelled([WHOLE.encoder[0], WHOLE.decoder[1]], AT.head, 22, "head: logits at every position", "prediction"),
  );
  const ground = h(
    "div",
    { class: "gf-wire-ground", role: "group", tabindex: 0, "aria-label": "The diagram; left and right go along a text, up and down from one stack to the other" },
    diagram,
  );

  const signAt = (side, count) => {
    const [from, to] = BOXES[side];
    const width = Math.min(22, (to - from) / count);
    const start = (from + to) / 2 - (count * width) / 2;
    return { width, x: (i) => start + (i + 0.5) * width };
  };

  // --- masks

  const SIDE = 150;
  const EDGE = 18;
  const grids = Object.fromEntries(
    MASKS.map((mask) => {
      const parts = {
        none: svg("rect", { x: EDGE, y: EDGE, width: SIDE, height: SIDE, rx: 6 }),
        hidden: svg("path", { class: "gf-wire-hidden" }),
        allowed: svg("path", { class: "gf-wire-allowed" }),
        row: svg("path", { class: "gf-wire-row" }),
        cell: svg("rect", { class: "gf-wire-cell", rx: 2 }),
        axes: svg("g", { class: "gf-wire-signs" }),
      };
      const picture = svg("svg", { viewBox: `0 0 ${SIDE + EDGE + 2} ${SIDE + EDGE + 2}`, class: "gf-panel", "aria-hidden": "true" }, Object.values(parts));
      const title = h("strong");
      const count = h("span");
      const area = h("div", { class: "gf-wire-mask", role: "group", tabindex: 0 }, picture);
      const element = h("div", { class: "gf-wire-grid" }, h("p", { class: "gf-panel-title" }, title, h("br"), count), area);
      const cellUnder = (event) => {
        const { columns, rows, size } = parts;
        if (!size) return null;
        const bounds = picture.getBoundingClientRect();
        const scale = (SIDE + EDGE + 2) / bounds.width;
        const [x, y] = [(event.clientX - bounds.left) * scale - EDGE, (event.clientY - bounds.top) * scale - EDGE];
        const [key, query] = [Math.floor(x / size), Math.floor(y / size)];
        return key >= 0 && key < columns && query >= 0 && query < rows ? { mask, query, key } : null;
      };
      area.addEventListener("pointermove", (event) => event.pointerType !== "touch" && point(cellUnder(event)));
      area.addEventListener("pointerleave", () => point(null));
      area.addEventListener("click", (event) => {
        const cell = cellUnder(event);
        if (cell) pin(cell);
      });
      area.addEventListener("focus", () => {
        const now = pinned();
        if (now.mask !== mask && masks(stateNow())[mask]) pin(fitted({ ...now, mask }, masks(stateNow())));
      });
      area.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (!move || !parts.size || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        const { query, key } = pinned();
        pin({ mask, query: Math.min(Math.max(query + move[0], 0), parts.rows - 1), key: Math.min(Math.max(key + move[1], 0), parts.columns - 1) });
      });
      return [mask, { ...parts, parts, element, area, title, count }];
    }),
  );

  // --- pointing at the diagram

  const stackOf = (mask) => (mask === "encoder" ? "encoder" : "decoder");
  function letterUnder(event) {
    const bounds = diagram.getBoundingClientRect();
    const scale = SIZE.width / bounds.width;
    const [x, y] = [(event.clientX - bounds.left) * scale, (event.clientY - bounds.top) * scale];
    if (y > AT.embedding && y < AT.letters - 4) return null;
    const stacks = texts(stateNow());
    const side = x < SIZE.width / 2 ? "encoder" : "decoder";
    if (!stacks[side]) return null;
    const { x: at, width } = signAt(side, stacks[side].reads.length);
    const t = Math.round((x - at(0)) / width);
    return t >= 0 && t < stacks[side].reads.length ? { mask: side, query: t, key: t } : null;
  }
  ground.addEventListener("pointermove", (event) => event.pointerType !== "touch" && point(letterUnder(event)));
  ground.addEventListener("pointerleave", () => point(null));
  ground.addEventListener("click", (event) => {
    const cell = letterUnder(event);
    if (cell) pin(cell);
  });
  ground.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { mask, query } = pinned();
    const stacks = texts(stateNow());
    const side = stackOf(mask);
    const to = { ArrowLeft: query - 1, ArrowRight: query + 1, Home: 0, End: stacks[side].reads.length - 1 }[event.key];
    const otherSide = ["ArrowUp", "ArrowDown"].includes(event.key) ? (side === "encoder" ? "decoder" : "encoder") : side;
    if (to === undefined && otherSide === side) return;
    event.preventDefault();
    if (!stacks[otherSide]) return;
    const t = Math.min(Math.max(to ?? query, 0), stacks[otherSide].reads.length - 1);
    pin({ mask: otherSide, query: t, key: t });
  });

  // --- what changes next to it

  const configuration = h("div", { class: "gf-wire-grid" });
  const trained = h("p", { class: "gf-wire-trained" });
  view.drawing.append(
    h("div", { class: "gf-wire" }, ground, h("div", { class: "gf-wire-masks" }, MASKS.map((mask) => grids[mask].element), configuration)),
    trained,
  );

  function drawConfiguration(family) {
    hold(configuration, [family], () => {
      const [before, now] = ["decoder", family].map((name) => configs[name]);
      const gone = before.lines.filter((written) => !now.lines.includes(written));
      const came = now.lines.filter((written) => !before.lines.includes(written));
      return [
        h("p", { class: "gf-panel-title" }, h("strong", {}, "ModelConfig"), h("br"), family === "decoder" ? "what the other families change" : "what differs from the decoder’s"),
        h(
          "ul",
          { class: "gf-wire-lines" },
          family === "decoder" && now.lines.map((written) => h("li", {}, written)),
          gone.map((written) => h("li", { class: "gf-wire-gone" }, h("del", {}, written))),
          came.map((written) => h("li", { class: "gf-wire-came" }, h("ins", {}, written))),
        ),
        h("p", { class: "gf-wire-parameters" }, `${grouped(now.parameters)} parameters in ${now.blocks}${family === "encoder-decoder" ? ` + ${now.blocks}` : ""} blocks`),
      ];
    });
  }

  const square = (x, y, size) => `M${(x + 0.5).toFixed(2)} ${(y + 0.5).toFixed(2)}h${(size - 1).toFixed(2)}v${(size - 1).toFixed(2)}h${(1 - size).toFixed(2)}z`;

  function drawMask(mask, found, stacks, chosen) {
    const grid = grids[mask];
    const table = found[mask];
    const isUsed = Boolean(table);
    put(grid.area, { class: `gf-wire-mask${isUsed ? "" : " gf-wire-off"}`, tabindex: isUsed ? 0 : -1 });
    put(grid.none, { class: isUsed ? "gf-wire-gone-cell" : "gf-wire-block" });
    const name = { encoder: "Encoder’s mask", decoder: "Decoder’s mask", cross: "Cross mask" }[mask];
    write(grid.title, name);
    const total = isUsed ? table.length * table[0].length : 0;
    const count = isUsed ? table.flat().filter(Boolean).length : 0;
    write(grid.count, isUsed ? `${count} of ${total} open` : "not used");
    put(grid.area, { "aria-label": isUsed ? `${name}, ${count} of ${total} cells are open; arrow keys choose a cell` : `${name}: not used` });
    const { parts } = grid;
    [parts.rows, parts.columns] = isUsed ? [table.length, table[0].length] : [0, 0];
    const rows = isUsed ? stacks[stackOf(mask)].reads : [];
    const columns = isUsed ? stacks[mask === "cross" ? "encoder" : mask].reads : [];
    const size = isUsed ? Math.min(SIDE / parts.rows, SIDE / parts.columns, 20) : 0;
    parts.size = size;
    const d = (want) => (isUsed ? table.map((row, t) => row.map((open, s) => (want(open, t, s) ? square(EDGE + s * size, EDGE + t * size, size) : "")).join("")).join("") : "");
    const isLit = isUsed && stackOf(mask) === stackOf(chosen.mask);
    put(grid.hidden, { d: d((open) => !open) });
    put(grid.allowed, { d: d((open, t) => open && !(isLit && t === chosen.query)) });
    put(grid.row, { d: d((open, t) => open && isLit && t === chosen.query) });
    const isHere = isUsed && mask === chosen.mask;
    put(grid.cell, isHere ? { x: EDGE + chosen.key * size, y: EDGE + chosen.query * size, width: size, height: size, class: "gf-wire-cell" } : { class: "gf-wire-cell gf-wire-gone-cell" });
    hold(grid.axes, [mask, ...rows, "|", ...columns, isLit ? chosen.query : ""], () => [
      rows.map((character, t) => words(visible(character), EDGE - 8, EDGE + (t + 0.5) * size + 4, "middle", isLit && t === chosen.query ? "gf-strong gf-wire-asks" : null)),
      columns.map((character, s) => words(visible(character), EDGE + (s + 0.5) * size, EDGE - 6, "middle", isLit && table[chosen.query][s] ? "gf-strong" : null)),
    ]);
  }

  // Lines from the chosen query to the keys that it attends to.
  function drawFan(mask, found, stacks, chosen) {
    const table = found[mask];
    const side = stackOf(mask);
    const isLit = Boolean(table) && side === stackOf(chosen.mask);
    const top = TOPS[mask];
    hold(fans[mask], [JSON.stringify(table ?? null), isLit ? chosen.query : ""], () => {
      if (!table) return [];
      const [rows, columns] = [signAt(side, table.length), signAt(side, table[0].length)];
      const [q, k] = [top + 22, top + ATTENDS - 6];
      const dots = range(table[0].length).map((s) => {
        const lit = isLit && table[chosen.query][s];
        return svg("circle", { cx: columns.x(s), cy: k, r: lit ? 2.8 : 1.6, class: lit ? "gf-wire-dot gf-wire-lit" : "gf-wire-dot" });
      });
      if (!isLit) return dots;
      const from = rows.x(chosen.query);
      const rays = range(table[0].length).filter((s) => table[chosen.query][s]);
      return [rays.map((s) => line(from, q, columns.x(s), k, "gf-wire-ray")), dots, svg("circle", { cx: from, cy: q, r: 3.2, class: "gf-wire-dot gf-wire-query" })];
    });
  }

  function drawLetters(side, found, stacks, chosen) {
    const stack = stacks[side];
    const asks = stackOf(chosen.mask) === side ? chosen.query : null;
    const isAskedAcross = asks === null && side === "encoder"; // a source does not attend to the target
    const seen = (asks !== null ? found[side] : isAskedAcross ? found.cross : null)?.[chosen.query] ?? [];
    const { reads = [], says = [] } = stack ?? {};
    const { width, x } = signAt(side, reads.length || 1);
    hold(letters[side], [...reads, "|", asks, ...seen], () =>
      reads.map((character, t) => [
        svg("rect", {
          x: x(t) - width / 2 + 0.5,
          y: AT.letters,
          width: width - 1,
          height: 22,
          rx: 2,
          class: `gf-wire-letter${seen[t] ? " gf-wire-seen" : ""}${t === asks ? " gf-wire-asked" : ""}${character === PAD ? " gf-wire-pad" : ""}`,
        }),
        words(visible(character), x(t), AT.letters + 15, "middle", seen[t] || t === asks ? "gf-strong" : null),
      ]),
    );
    hold(targets[side], [...says, "|", asks], () => [
      says.some(Boolean) && words("should predict", x(0) - width / 2, AT.says - 18, "start", "gf-wire-name"),
      says.map((character, t) => character && [
        svg("rect", { x: x(t) - width / 2 + 0.5, y: AT.says - 12, width: width - 1, height: 22, rx: 2, class: `gf-wire-target${t === asks ? " gf-wire-asked" : ""}` }),
        words(visible(character), x(t), AT.says + 3, "middle", t === asks ? "gf-strong" : null),
      ]),
    ]);
  }

  const tables = () => {
    const state = stateNow();
    const [found, stacks] = [masks(state), texts(state)];
    return [
      {
        caption: "The masks: how many cells are open",
        headers: ["Mask", "queries", "keys", "open", "of"],
        rows: () =>
          MASKS.filter((mask) => found[mask]).map((mask) => {
            const table = found[mask];
            return [mask === "cross" ? "cross-attention" : `${mask}’s self-attention`, table.length, table[0].length, table.flat().filter(Boolean).length, table.length * table[0].length];
          }),
      },
      ...Object.entries(stacks).map(([side, { reads, says }]) => ({
        caption: `Every position of the ${ofStack(state.family, side)}: what it reads and should predict`,
        headers: ["Position", "Character", `reads of the ${ofStack(state.family, side)}`, ...(side === "decoder" && found.cross ? ["reads of the source"] : []), "should predict"],
        rows: () =>
          reads.map((character, t) => [
            t,
            visible(character),
            ...[side, ...(side === "decoder" && found.cross ? ["cross"] : [])].map((mask) => runs(range(found[mask][t].length).filter((s) => found[mask][t][s]))),
            says[t] === null ? "–" : visible(says[t]),
          ]),
      })),
    ];
  };

  function draw() {
    const state = stateNow();
    const { family } = state;
    const [found, stacks] = [masks(state), texts(state)];
    const chosen = fitted(pointed ?? state, found);
    const off = (element, isOn) => put(element, { class: isOn ? "" : "gf-wire-off" });
    off(gEncoder, stacks.encoder);
    off(gDecoder, stacks.decoder);
    off(gCross, found.cross);
    off(gMemory, found.cross);
    off(gToHead, family === "encoder");
    source.hidden = family !== "encoder-decoder";
    prefix.hidden = family !== "decoder";
    write(kind.encoder, KINDS.encoder);
    write(kind.decoder, family === "decoder" && prefixOf(state) > 1 ? KINDS.prefix : KINDS.decoder);
    write(kind.cross, KINDS.cross);
    for (const side of ["encoder", "decoder"]) {
      drawLetters(side, found, stacks, chosen);
      write(under[side], stacks[side] ? `reads: ${ofStack(family, side)}` : "not used");
    }
    for (const mask of MASKS) {
      drawMask(mask, found, stacks, chosen);
      drawFan(mask, found, stacks, chosen);
    }
    drawConfiguration(family);
    write(trained, training(state));
    view.says(sentence(state, chosen, found, stacks));
    view.describe(() => `${FAMILIES.find(([name]) => name === family)[1]}: ${Object.keys(found).length} ${Object.keys(found).length === 1 ? "mask" : "masks"}; chosen is position ${chosen.query} of the ${ofStack(family, stackOf(chosen.mask))}, key ${chosen.key}`);
    view.tables(tables);
  }

  const drawn = redrawing(model, TRAITS, draw);
  return drawn.stop;
}

export default { render };
