// Pairs of a key and a value are written into one matrix, which is then asked for every key. See state_watch.py.
import { button, choice, fixed, frame, grouped, h, hold, onChange, percent, plural, put, setAll, slider, textField, toggle, write } from "../../widgets/kit/kit.js";
import { dot, matmul, mulberry32, range } from "../../widgets/kit/maths.js";
import { diverging, legend, tint } from "../../widgets/kit/plot.js";

const MOST_PAIRS = 24; // as in state_watch.py
const MOST_VALUES = 5;
const SAME = 1e-9; // a smaller difference is rounding
const MORE = "ant bat bee cow crab deer duck eel elk frog goat hare jay kiwi lamb lynx mole moth newt pig rat seal toad wolf".split(" ");

// --- maths ----------------------------------------------------------------------------------------------------------

// "cat red, dog=blue; my fox → gold" as pairs, and the entries that are none or too many.
export function parse(text) {
  const [pairs, unused, values] = [[], [], new Set()];
  for (const entry of text.split(/[,;\n]/).map((each) => each.trim()).filter(Boolean)) {
    const [, key, value] = entry.match(/^(.+?)\s*(?:→|->|[=:\s])\s*(\S+)$/) ?? [];
    const fits = key && pairs.length < MOST_PAIRS && (values.has(value) || values.size < MOST_VALUES);
    if (fits) values.add(value);
    (fits ? pairs : unused).push(fits ? [key, value] : entry);
  }
  return { pairs, unused };
}

// n keys (n, K) of length 1: random directions, of which the first K can be at right angles.
export function directions(n, K, orthogonal) {
  const keys = [];
  for (let i = 0; i < n; i++) {
    const uniform = mulberry32(i + 1);
    let key = range(K).map(() => 2 * uniform() - 1);
    for (const other of orthogonal && i < K ? keys : []) {
      const along = dot(key, other);
      key = key.map((x, j) => x - along * other[j]);
    }
    const length = Math.sqrt(dot(key, key));
    keys.push(key.map((x) => x / length));
  }
  return keys;
}

// What a key is answered: the values with the largest number, how much of what is returned that is, and whether it is right.
function answerOf(read, values, wanted) {
  const most = Math.max(...read);
  const found = most > SAME ? values.filter((_, u) => most - read[u] < SAME) : [];
  const sum = read.map(Math.abs).filter((x) => x > SAME).reduce((a, b) => a + b, 0);
  return { read, found, share: found.length ? most / sum : 0, wanted, isRight: found.length === 1 && found[0] === wanted };
}

// Everything that is shown after so many pairs: the state (K, U), and of the last pair what its key returned before (`old`) and
// what was written.
export function watch({ pairs: text, position, delta, decay, d_key: K, orthogonal }) {
  const { pairs, unused } = parse(text);
  const [keys, values] = [0, 1].map((part) => [...new Set(pairs.map((pair) => pair[part]))]);
  const k = directions(keys.length, K, orthogonal);
  const done = pairs.slice(0, position);
  let [state, old, written] = [range(K).map(() => values.map(() => 0))];
  for (const [key, value] of done) {
    const now = k[keys.indexOf(key)];
    state = state.map((row) => row.map((x) => decay * x));
    [old] = matmul([now], state);
    written = values.map((name, u) => (name === value ? 1 : 0) - (delta ? old[u] : 0));
    state = state.map((row, i) => row.map((x, u) => x + now[i] * written[u]));
  }
  const latest = new Map(done);
  const answers = keys.map((key, i) => answerOf(values.length ? matmul([k[i]], state)[0] : [], values, latest.get(key)));
  return { pairs, unused, keys, values, k, done, state, old, written, answers };
}

// --- words ----------------------------------------------------------------------------------------------------------

const listed = (names, word) => names.join(` ${word} `) || "none";

export function sentence({ unused, keys, done, answers }, asked) {
  const ignored = unused.length ? ` Not used: ${unused.join(", ")}.` : "";
  if (!done.length) return `Type a key and a value, such as “cat red”.${ignored}`;
  const written = answers.filter(({ wanted }) => wanted);
  const right = written.filter(({ isRight }) => isRight).length;
  const all = right === 1 ? "the only key" : `all ${right} keys`;
  const start = `After ${plural(done.length, "pair")}, the answer is right for ${right === written.length ? all : `${right} of ${plural(written.length, "key")}`}.`;
  const { found, share, wanted, isRight } = answers[keys.indexOf(asked)];
  const isReplaced = done.filter(([key]) => key === asked).length > 1;
  const how = isRight ? (isReplaced ? ", its latest value," : ", as written,") : wanted ? ` instead of ${wanted},` : "";
  let heard = `the answer is ${found}${how} with ${percent(share)} of what is returned`;
  if (found.length !== 1) heard = `${found.length ? `${listed(found, "and")} are equally strong` : "no value stands out"}${wanted ? `, but only ${wanted} is right` : ""}`;
  return `${start} For “${asked}”, ${wanted ? "" : "nothing has been written yet; "}${heard}.${ignored}`;
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["pairs", "position", "delta", "decay", "d_key", "orthogonal", "asked"];
const two = (x) => (Math.abs(x) < SAME ? "0" : fixed(x, 2));

// What elements show, as pairs of attributes and a text; only what differs is written.
const fill = (elements, contents) =>
  contents.forEach(([attrs, text], i) => {
    put(elements[i], attrs);
    write(elements[i], text);
  });
const blank = [{}, ""];
const cell = (x) => [{ style: `background: ${diverging(x)}` }, ""];
const number = (x, text = two(x)) => [{ class: "gf-state-number", style: `background: ${tint(x)}` }, text]; // which stays readable
const word = (text) => [{ class: "gf-state-word" }, text];
const head = (text, colour) => [{ class: "gf-state-word gf-state-head", style: `border-color: ${colour}` }, text];

function render({ model, el }) {
  const view = frame(el, {
    title: "What can one matrix remember?",
    hint: "Each pair of a key and a value is written into the same matrix. Ask it for any key: is the answer right? What happens when a key gets another value?",
  });
  const shown = () => watch(Object.fromEntries(TRAITS.map((name) => [name, model.get(name)])));
  const end = () => parse(model.get("pairs")).pairs.length;
  const at = () => Math.min(model.get("position"), end());
  const go = (to) => setAll(model, { position: Math.min(Math.max(to, 1), Math.max(end(), 1)) });

  // --- controls

  const field = textField(model, "pairs", { label: `Keys and their values (at most ${MOST_PAIRS} pairs with ${MOST_VALUES} different values)`, maxLength: 600 });
  // A reader at the end of the list stays there while it grows.
  field.addEventListener("input", () => at() === end() && model.set("position", MOST_PAIRS), true);
  const [back, next] = [button("Back", () => go(at() - 1)), button("Next", () => go(at() + 1))];
  const first = { pairs: model.get("pairs"), position: model.get("position") };
  const more = button("Add five pairs", () => {
    const { pairs, keys, values } = shown();
    const free = MORE.filter((key) => !keys.includes(key)).slice(0, Math.min(5, MOST_PAIRS - pairs.length));
    const added = free.map((key, i) => [key, values[(pairs.length + i) % values.length] ?? "red"]);
    setAll(model, { pairs: [...pairs, ...added].map((pair) => pair.join(" ")).join(", "), position: MOST_PAIRS });
  });
  view.controls.append(
    field,
    h("div", { class: "gf-buttons" }, back, next, more, button("Restore the list", () => setAll(model, first))),
    h(
      "div",
      {},
      slider(model, "position", { label: "Pairs written", min: () => Math.min(1, end()), max: end, follows: ["pairs"], format: () => `${at()} of ${end()}` }),
      slider(model, "decay", { label: "Kept at each step (decay)", min: 0.5, max: 1, step: 0.05, format: percent }),
    ),
    choice(model, "delta", { label: "What is written", options: [[false, "the value"], [true, "the difference (delta rule)"]] }),
    h(
      "div",
      {},
      choice(model, "d_key", { label: "Features of a key", options: [2, 4, 8, 16].map((K) => [K, String(K)]) }),
      toggle(model, "orthogonal", { label: "Keys at right angles, while possible" }),
    ),
  );

  // --- drawing

  const [pairTitle, picture, sizes] = [h("p", { class: "gf-panel-title" }), h("div", { class: "gf-state" }), h("p", { class: "gf-hint" })];
  const table = h("table", { class: "gf-readout gf-state-answers", "aria-label": "The answer for each key" });
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  view.drawing.append(
    h(
      "div",
      { class: "gf-panels" },
      h("div", { class: "gf-panel-cell", "aria-hidden": "true" }, pairTitle, picture), // the tables have its numbers
      h("div", { class: "gf-panel-cell" }, h("p", { class: "gf-panel-title" }, h("strong", {}, "The answer for each key"), " (press one to see its query)"), table),
    ),
    legend((x) => diverging(2 * x - 1), "≤ −1", "≥ 1"),
    h(
      "p",
      { class: "gf-hint" },
      "When a pair is written, each cell of the state grows by the key’s number in its row times the written number above it. When a key is asked, each row " +
        "is multiplied by the query’s number beside it, and each column is summed. Here, each value has a column of its own; in a model, values are vectors, as keys are.",
    ),
    sizes,
  );

  let rows; // of the table; they stay while the keys do, so that a button keeps the focus
  return onChange(model, TRAITS, () => {
    const now = shown();
    const { pairs, keys, values, k, done, state, old, written, answers } = now;
    const [delta, K, U] = [model.get("delta"), state.length, values.length];
    const asked = keys.includes(model.get("asked")) ? model.get("asked") : keys[0];
    const says = sentence(now, asked);
    put(back, { "aria-disabled": done.length <= 1 }); // and not disabled, which would take the focus away
    put(next, { "aria-disabled": done.length === pairs.length });
    put(more, { "aria-disabled": pairs.length === MOST_PAIRS });
    view.says(says);
    view.drawing.hidden = !done.length;
    view.describe(() => `A state of ${K} by ${U} numbers, and what it returns for each key. ${says}`);
    if (!done.length) return view.tables(() => []);

    const [key, value] = done.at(-1);
    const [a, q] = [keys.indexOf(key), keys.indexOf(asked)];
    pairTitle.replaceChildren("Written: ", h("strong", {}, `${key} → ${value}`), " · Asked: ", h("strong", {}, asked));
    put(picture, { style: `--n: ${U}` });
    const line = (name, numbers) => [word(name), blank, ...numbers, blank];
    const drawn = [
      [blank, head("key", "var(--gf-key)"), ...values.map((name) => head(name, "var(--gf-value)")), head("query", "var(--gf-query)")],
      line("value", values.map((name) => number(name === value ? 1 : 0))),
      delta ? line("− old answer", old.map((x) => number(-x))) : line("(old answer)", old.map((x) => number(0, `(${two(x)})`))),
      line("= written", written.map((x) => number(x))),
      ...state.map((row, i) => [word(["state", `${K} × ${U}`][i] ?? ""), cell(k[a][i]), ...row.map(cell), cell(k[q][i])]),
      line("answer", answers[q].read.map((x) => number(x))),
    ].flat();
    hold(picture, [K, U], () => drawn.map(() => h("span")));
    fill(picture.children, drawn);
    hold(table, [JSON.stringify([keys, values])], () => {
      const column = (text) => h("th", { scope: "col" }, text);
      rows = keys.map((name) => {
        const press = h("button", { type: "button", class: "gf-button gf-state-ask", onclick: () => setAll(model, { asked: name }) }, name);
        const [cells, found, share] = [values.map(() => h("td")), h("b"), h("span")];
        return { press, cells: [...cells, found, share], row: h("tr", {}, h("th", { scope: "row" }, press), cells, h("td", {}, found, " ", share)) };
      });
      return [h("thead", {}, h("tr", {}, column("key"), values.map(column), column("answer"))), h("tbody", {}, rows.map(({ row }) => row))];
    });
    rows.forEach(({ press, cells }, i) => {
      const { read, found, wanted, share, isRight } = answers[i];
      put(press, { "aria-pressed": i === q });
      const verdict = [{ class: isRight ? "gf-state-right" : "gf-state-wrong" }, wanted ? `${isRight ? "✓" : "✗"} ${listed(found, "or")}` : ""];
      fill(cells, [...read.map((x) => number(x)), verdict, [{}, wanted ? percent(share) : "not yet"]]);
    });
    write(
      sizes,
      `The state has K · U = ${K} · ${U} = ${K * U} numbers, however many pairs are written. A cache would keep every key and value: ` +
        `${done.length} · (${K} + ${U}) = ${grouped(done.length * (K + U))} numbers.`,
    );
    view.tables(() => [
      {
        caption: "What is returned for each key",
        headers: ["Key", ...values, "Answer", "Latest value"],
        rows: () => answers.map(({ read, found, wanted }, i) => [keys[i], ...read.map(two), listed(found, "or"), wanted ?? "not written yet"]),
      },
      { caption: "The state", headers: ["Feature", ...values, `Key ${key}`, `Query ${asked}`], rows: () => state.map((row, i) => [i, ...[...row, k[a][i], k[q][i]].map((x) => fixed(x, 3))]) },
      { caption: `Pair ${done.length}, ${key} → ${value}`, headers: ["", ...values], rows: [["Returned before", ...old.map(two)], ["Written", ...written.map(two)]] },
    ]);
  });
}

export default { render };
