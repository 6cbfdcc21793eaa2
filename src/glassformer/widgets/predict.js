// A question that takes an answer before it shows what came out. What came out takes the place of the inputs. It may be higher
// or lower than they are; nothing above it moves, and below it the fold opens at the same moment.

import { button, card, grouped, h, onChange, risky, uniqueId, write } from "./kit/kit.js";
import { quoted, rich } from "./kit/rich.js";

// --- numbers and words -----------------------------------------------------------------------------------------------

// A number as it is written: with the prediction's decimals, or with its own if a reader typed more.
export function written(x, digits, unit) {
  const own = (String(x).split(".")[1] ?? "").length;
  const text = Math.abs(x).toFixed(Math.min(Math.max(digits, own), 6));
  const [whole, decimals] = text.split(".");
  const sign = x < 0 && Number(text) !== 0 ? "−" : "";
  const number = sign + grouped(Number(whole)) + (decimals ? `.${decimals}` : "");
  return unit ? `${number} ${unit}` : number;
}

// Where a number is on the axis, from 0 to 1.
export const placeOf = (x, low, high) => (x - low) / (high - low);

// The values at which the axis has ticks: the ends, and a few between if they are as short to write as the step.
export function ticks(low, high, digits) {
  for (const parts of [5, 4, 2]) {
    const values = Array.from({ length: parts + 1 }, (_, i) => low + (i * (high - low)) / parts);
    if (values.every((value) => Math.abs(value - Number(value.toFixed(digits))) < 1e-9 * (high - low))) return values;
  }
  return [low, high];
}

// What is wrong with what is in the field, in plain words, or an empty string. `text` is what the browser makes of it, which is
// nothing if it is no number.
export function impossible(text, isNumber, low, high, show) {
  if (!isNumber) return "That is not a number. Type one with digits, such as " + show(low) + ".";
  if (text === "") return "Choose a number first, with the slider or in the field. A guess is enough.";
  const x = Number(text);
  return x < low || x > high ? `The axis goes from ${show(low)} to ${show(high)}. Choose a number on it.` : "";
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const plain = (text) => text.replaceAll(/[`*]/g, "");
const sentence = (text) => (/[.!?…]$/.test(text) ? text : `${text}.`);

// One neutral sentence: what the reader said, and what came out. No answer is called right or wrong.
export function outcome({ kind, options, digits, unit, answer, committed }) {
  const said = committed.length > 0;
  if (kind === "order") {
    if (!said) return "The list shows the order that came out.";
    return same(committed, answer)
      ? "You put them in this order, and this is how it came out."
      : "Your order and the one that came out are side by side.";
  }
  const words = ([value]) => (kind === "choice" ? quoted(plain(options[value])) : written(value, digits, unit));
  if (answer.length === 0) return said ? `You said ${words(committed)}. What came out is below.` : "What came out is below.";
  if (!said) return sentence(`It came out as ${words(answer)}`);
  const agrees = words(committed) === words(answer);
  return sentence(`You said ${words(committed)}${agrees ? ", and it came out as" : "; it came out as"} ${words(answer)}`);
}

// --- what the browser remembers --------------------------------------------------------------------------------------

// A browser may forbid storing, as some do for pages opened from disk; then nothing is remembered. widget-host.js reads the same
// entries, to open folds before anything is drawn.
const nameOf = (model) => `${model.get("chapter")}/${model.get("name")}`;
const shelf = (model) => `glassformer.predict: ${nameOf(model)}`;
const questionOf = (model) => [model.get("question"), ...model.get("options")];

// Whether something that was stored could be the reader's answer to this question; an empty list says that there is none.
function isAnswer(model, committed) {
  const [kind, options] = [model.get("kind"), model.get("options")];
  if (!Array.isArray(committed)) return false;
  if (committed.length === 0) return true;
  if (kind === "order") return same([...committed].sort(), options.map((_, i) => i)); // at most 7 options: digits
  const [x] = committed;
  if (committed.length > 1) return false;
  if (kind === "choice") return Number.isInteger(x) && x >= 0 && x < options.length;
  return Number.isFinite(x) && x >= model.get("low") && x <= model.get("high");
}

// If what was stored is no answer, whether the reader has seen what came out still counts, because the page has opened its fold.
export function recall(model) {
  try {
    const { asked, committed, shown } = JSON.parse(localStorage.getItem(shelf(model)));
    if (!same(asked, questionOf(model))) return null;
    return { committed: isAnswer(model, committed) ? committed : [], shown: Boolean(shown) };
  } catch {
    return null;
  }
}

export function save(model) {
  const [committed, shown] = [model.get("committed"), model.get("shown")];
  try {
    if (!shown && committed.length === 0) localStorage.removeItem(shelf(model));
    else localStorage.setItem(shelf(model), JSON.stringify({ asked: questionOf(model), committed, shown }));
    return true;
  } catch {
    return false;
  }
}

// --- what follows the question -----------------------------------------------------------------------------------------

// A page folds it in <details> with the prediction's name. JupyterLab folds it below a collapsed heading, which is the next
// cell, and offers views no other way to open it than its own button.
function followingFold(el, name) {
  const details = document.querySelector(`details.fold[data-predict="${CSS.escape(name)}"]`);
  if (details) return { isOpen: () => details.open, set: (open) => (details.open = open), heading: "" };
  let next = el.closest(".jp-Cell")?.nextElementSibling;
  while (next && !next.matches(".jp-Cell")) next = next.nextElementSibling;
  const heading = next?.querySelector(".jp-RenderedMarkdown h4");
  if (!heading) return null;
  const toggle = next.querySelector(".jp-collapseHeadingButton");
  return {
    isOpen: () => Boolean(toggle) && !toggle.classList.contains("jp-mod-collapsed"),
    set: () => toggle?.click(),
    heading: heading.textContent.replace(/¶$/, "").trim(),
    cell: next,
  };
}

// Returns what to tell the reader if the fold cannot be opened, or an empty string.
function setFold(el, name, open) {
  const fold = followingFold(el, name);
  if (fold && fold.isOpen() !== open) fold.set(open);
  if (fold && fold.isOpen() === open) return "";
  return fold ? `Open the heading “${fold.heading}” below to see the rest.` : "Open the heading below to see the rest.";
}

// In JupyterLab, the cell below may be put on the page after this one.
const TRIES = 20;
const PAUSE = 250; // milliseconds

// Shift+Enter and JupyterLab's button ▶ run a cell and go on to the next, even if a collapsed heading hides it; for a hidden cell
// with code, JupyterLab opens the heading. Under a question without an answer, this goes on with the same key: the hidden cells are
// run, because later ones may need them, and the cell after them is next. Meanwhile the heading is shut again before anything is
// drawn. Whatever else the reader does may open it.
const RUN = '[data-command="notebook:run-cell-and-select-next"]';
const views = new Set(); // those on the page: { el, model }
const asking = new Map(); // the cell of a heading -> { model, hidden }: also while the question's own cell is run again
let goesOn = false; // whether that was the last thing that the reader did

function watch(event) {
  if (!event.isTrusted || event.key === "Shift") return;
  goesOn = event.key ? event.key === "Enter" && event.shiftKey : event.target.closest(RUN) !== null;
  if (!goesOn) return;
  for (const { el, model } of views) {
    const { cell } = followingFold(el, nameOf(model)) ?? {};
    if (!cell) continue;
    if (!asking.has(cell)) new MutationObserver((changes) => goPast(cell, changes)).observe(cell, { attributeFilter: ["class"], attributeOldValue: true });
    asking.set(cell, { model });
  }
  for (const [cell, about] of asking) {
    about.hidden = parseInt(cell.querySelector(".jp-showHiddenCellsButton")?.textContent ?? 0); // "3 cells hidden"
  }
}

function goPast(cell, changes) {
  const { model, hidden } = asking.get(cell);
  if (!goesOn || !hidden || model.get("shown")) return;
  cell.querySelector(".jp-collapseHeadingButton:not(.jp-mod-collapsed)")?.click();
  const wasActive = changes.some(({ oldValue }) => oldValue.includes("jp-mod-active"));
  if (!wasActive || cell.classList.contains("jp-mod-active")) return;
  const key = { key: "Enter", code: "Enter", keyCode: 13, shiftKey: true, bubbles: true, cancelable: true };
  for (let left = hidden; left > 0; left--) cell.dispatchEvent(new KeyboardEvent("keydown", key));
}

// --- the four kinds ----------------------------------------------------------------------------------------------------

// Each returns { element, read, write, focus }: what the reader has answered ({ value } or { problem }), how to put an answer in,
// and where the keyboard begins.

function choices({ options }, labelledBy) {
  const group = uniqueId();
  const radios = options.map((_, i) => h("input", { type: "radio", name: group, value: i }));
  const rows = radios.map((radio, i) => h("label", { class: "gf-option" }, radio, h("span", {}, rich(options[i]))));
  return {
    element: h("fieldset", { class: "gf-choices", "aria-labelledby": labelledBy }, rows),
    read() {
      const chosen = radios.findIndex((radio) => radio.checked);
      return chosen < 0 ? { problem: "Choose one of the options first. A guess is enough." } : { value: [chosen] };
    },
    write: (value) => radios.forEach((radio, i) => (radio.checked = i === value[0])),
    focus: () => (radios.find((radio) => radio.checked) ?? radios[0]).focus(),
  };
}

// The axis under a slider, or under what came out. A label never leaves the axis: it moves left as its place moves right.
function axisElement({ low, high, digits, unit, axis, marks: named }, said, came) {
  const at = (x) => `--gf-at: ${placeOf(x, low, high)}`;
  const labels = ticks(low, high, digits).map((x) => h("span", { class: "gf-tick", style: at(x) }, written(x, 0, "")));
  const marks = named.map((mark, row) =>
    h("span", { class: "gf-place", style: `${at(mark.at)}; --gf-row: ${row}` }, h("span", {}, plain(mark.label))),
  );
  // The name of the lower pin makes way for the line of the higher one: on the left half of the axis to the right, and vice versa.
  const apart = said && came ? placeOf(said.at, low, high) - placeOf(came.at, low, high) : 0;
  const toRight = said && came && said.at + came.at < low + high;
  const isLower = (other) => (toRight ? other <= 0 : other >= 0);
  const pin = (one, name, other, lower) =>
    one &&
    h(
      "span",
      { class: `gf-pin ${name}${!said || !came ? "" : !lower ? " gf-higher" : toRight ? " gf-east" : " gf-west"}`, style: `${at(one.at)}; --gf-apart: ${other}` },
      h("span", {}, one.label),
    );
  const cameIsLower = isLower(apart);
  const pins = [pin(said, "gf-said", -apart, !cameIsLower), pin(came, "gf-came", apart, cameIsLower)];
  return h(
    "div",
    { class: "gf-scale", "aria-hidden": "true", style: `--gf-rows: ${marks.length}` },
    h("div", { class: "gf-line" }, pins, labels, marks),
    h("p", { class: "gf-axis-name" }, unit ? `${axis} (${unit})` : axis),
  );
}

function numbers(asked) {
  const { kind, low, high, step, digits, unit, axis } = asked;
  const typed = kind === "number";
  const label = unit ? `${axis} (${unit})` : axis;
  const show = (x) => written(x, 0, "");
  const range = h("input", { type: "range", min: low, max: high, step, "aria-label": plain(label) });
  const field = typed && h("input", { class: "gf-input", type: "number", step: "any", inputmode: "decimal", id: uniqueId(), autocomplete: "off" });
  const output = h("output", { class: "gf-value" }, "–");
  let value = ""; // nothing before the reader has chosen
  const put = (text) => {
    value = text;
    range.classList.toggle("gf-unset", text === "");
    if (text !== "") range.value = text;
    range.setAttribute("aria-valuetext", text === "" ? "not chosen yet" : written(Number(text), digits, unit));
    write(output, text === "" ? "–" : written(Number(text), digits, unit));
  };
  const take = () => {
    put(range.value);
    if (field) field.value = range.value;
  };
  range.addEventListener("input", take);
  range.addEventListener("click", take); // also if the handle has not moved
  if (field) field.addEventListener("input", () => put(field.value));
  const reset = () => {
    range.value = (low + high) / 2;
    if (field) field.value = "";
    put("");
  };
  reset();
  const entry = field
    ? h("p", { class: "gf-entry" }, h("label", { class: "gf-label", for: field.id }, "Your number"), field, unit)
    : h("p", { class: "gf-entry" }, h("span", { class: "gf-label" }, "Your point"), output);
  return {
    element: h("div", { class: "gf-number-line" }, entry, range, axisElement(asked)),
    read() {
      const problem = impossible(value, !field || !field.validity.badInput, low, high, show);
      return problem ? { problem: typed ? problem : "Choose a point on the axis first. A guess is enough." } : { value: [Number(value)] };
    },
    write([answer]) {
      if (answer === undefined) return reset();
      if (field) field.value = answer;
      put(String(answer));
    },
    focus: () => (field || range).focus(),
  };
}

function order({ options }, labelledBy) {
  const list = h("ol", { class: "gf-order", "aria-labelledby": labelledBy });
  const told = h("p", { class: "gf-told", "aria-live": "polite" });
  let now = options.map((_, i) => i);
  const move = (option, by) => {
    const from = now.indexOf(option);
    const to = from + by;
    if (to < 0 || to >= now.length) return;
    now.splice(to, 0, ...now.splice(from, 1));
    place();
    buttons[option][by < 0 ? 0 : 1].focus();
    write(told, `${plain(options[option])} is now number ${to + 1} of ${now.length}.`);
  };
  // At an end, a button stays in reach and does nothing: a disabled one would lose the focus.
  const buttons = options.map((text, i) =>
    [[-1, "▲", "up"], [1, "▼", "down"]].map(([by, sign, way]) =>
      h("button", { class: "gf-button", type: "button", "aria-label": `Move ${plain(text)} ${way}`, onclick: () => move(i, by) }, sign),
    ),
  );
  const rows = options.map((text, i) => h("li", {}, h("div", {}, h("span", {}, rich(text)), h("span", { class: "gf-moves" }, buttons[i]))));
  const place = () => {
    list.replaceChildren(...now.map((i) => rows[i]));
    now.forEach((option, i) => {
      buttons[option][0].setAttribute("aria-disabled", i === 0);
      buttons[option][1].setAttribute("aria-disabled", i === now.length - 1);
    });
  };
  place();
  return {
    element: h("div", {}, list, told),
    read() {
      const isUntouched = now.every((option, i) => option === i); // which is never the order that came out
      return isUntouched ? { problem: "Move at least one line first. A guess is enough." } : { value: [...now] };
    },
    write(value) {
      now = value.length ? [...value] : options.map((_, i) => i);
      place();
    },
    focus: () => buttons[now[0]][1].focus(),
  };
}

const inputsOf = { choice: choices, number: numbers, point: numbers, order };

// --- what came out -----------------------------------------------------------------------------------------------------

const SAID = "your answer";
const CAME = "what came out";

function picture({ kind, options, answer, committed, digits, unit, ...axis }) {
  if (kind === "choice") {
    const tags = (i) => [
      committed[0] === i && h("span", { class: "gf-tag gf-said" }, SAID),
      answer[0] === i && h("span", { class: "gf-tag gf-came" }, CAME),
    ];
    return h("ul", { class: "gf-outcome" }, options.map((text, i) => h("li", {}, h("span", {}, rich(text)), tags(i))));
  }
  if (kind === "order") {
    const column = (title, list, name) =>
      h("div", {}, h("p", { class: `gf-tag ${name}` }, title), h("ol", {}, list.map((i) => h("li", {}, rich(options[i])))));
    return h(
      "div",
      { class: "gf-orders" },
      committed.length > 0 && column(SAID, committed, "gf-said"),
      column(CAME, answer, "gf-came"),
    );
  }
  const pin = (words, [x]) => x !== undefined && { at: x, label: `${words}: ${written(x, digits, unit)}` };
  return axisElement({ ...axis, digits, unit }, pin(SAID, committed), pin(CAME, answer));
}

const TRAITS = ["question", "kind", "options", "low", "high", "step", "unit", "axis", "marks", "digits", "answer", "committed"];

function render({ model, el }) {
  const state = () => Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
  const change = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const saved = recall(model);
  if (saved && !model.get("shown") && model.get("committed").length === 0) {
    change({ committed: saved.committed, shown: saved.shown });
  }

  const name = nameOf(model);
  const isStored = save(model);
  const root = card(el, {
    title: rich(model.get("question")),
    hint: `Answer first, then see what came out.${isStored ? " Your answer stays in this browser." : ""}`,
  });
  root.classList.add("gf-predict");
  const title = root.querySelector(".gf-title");
  const inputs = inputsOf[model.get("kind")](state(), title.id);
  const plea = h("p", { class: "gf-plea", "aria-live": "polite" });
  const line = h("p", { class: "gf-says", tabindex: -1 });
  const drawing = h("div", { class: "gf-picture" });

  const show = () => {
    const { value, problem } = inputs.read();
    write(plea, problem ?? "");
    if (problem) inputs.focus();
    else reveal({ committed: value });
  };
  function reveal(changes) {
    write(plea, "");
    change({ ...changes, shown: true });
    draw(); // now, so that the result can have the focus
    line.focus();
  }
  function ask(changes) {
    change({ ...changes, shown: false });
    draw();
    inputs.focus();
  }
  const form = h(
    "form",
    {
      class: "gf-panel",
      novalidate: true,
      onsubmit(event) {
        event.preventDefault();
        show();
      },
      onkeydown(event) {
        if (event.key !== "Enter" || !event.target.matches("input")) return;
        event.preventDefault();
        show();
      },
    },
    inputs.element,
    plea,
    h(
      "div",
      { class: "gf-buttons" },
      h("button", { class: "gf-button gf-main", type: "submit" }, "Show"),
      button("Just show me", () => reveal({ committed: [] })),
    ),
  );
  const result = h(
    "div",
    { class: "gf-panel" },
    line,
    drawing,
    h(
      "div",
      { class: "gf-buttons" },
      button("Change my answer", () => ask({})),
      risky(
        "Forget my answer",
        "Forget it for good",
        () => {
          setFold(el, name, false);
          ask({ committed: [] });
        },
        { isLost: () => model.get("committed").length > 0 },
      ),
    ),
  );
  root.append(form, result);

  let isGone = false;
  function unfold(triesLeft) {
    const problem = setFold(el, name, true);
    write(line, [outcome(state()), problem].filter(Boolean).join(" "));
    if (problem && triesLeft && !isGone) setTimeout(() => model.get("shown") && unfold(triesLeft - 1), PAUSE);
  }
  let drawn = null;
  function draw() {
    const now = JSON.stringify([model.get("committed"), model.get("shown")]);
    if (now === drawn) return;
    drawn = now;
    const shown = model.get("shown");
    save(model);
    inputs.write(model.get("committed"));
    drawing.replaceChildren(...(shown ? [picture(state())] : []));
    write(line, shown ? outcome(state()) : "");
    form.classList.toggle("gf-away", shown);
    result.classList.toggle("gf-away", !shown);
    if (shown) unfold(TRIES);
  }
  const view = { el, model };
  views.add(view);
  for (const kind of ["keydown", "pointerdown"]) window.addEventListener(kind, watch, true); // once, however many views there are
  const stop = onChange(model, ["committed", "shown"], draw);
  return () => {
    isGone = true;
    views.delete(view);
    stop();
  };
}

export default { render };
