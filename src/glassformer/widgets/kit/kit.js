// What every view is built from: the frame around it, and controls bound to the model's traits.
// Controls are native inputs: they come with a keyboard, a label and a touch screen, and need no kernel.

// --- elements ----------------------------------------------------------------------------------------------

function build(element, attrs, children) {
  for (const [name, value] of Object.entries(attrs)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

// h("button", { class: "gf-button", onclick: go }, "Go"): text children are text, never markup.
export const h = (tag, attrs = {}, ...children) => build(document.createElement(tag), attrs, children);

export const svg = (tag, attrs = {}, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attrs, children);

// A drawing changes only what differs from what is there: every element and every attribute that is written costs style,
// layout and paint, even if the value is the same.
export function put(element, attrs) {
  for (const [name, value] of Object.entries(attrs)) {
    if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

export const write = (element, text) => element.textContent !== String(text) && (element.textContent = text);

// The contents of an element, rebuilt only if the key differs: a list of everything that they are made from.
const holding = new WeakMap();
export function hold(element, key, make) {
  const now = key.join(" ");
  if (holding.get(element) === now) return;
  holding.set(element, now);
  element.replaceChildren();
  build(element, {}, [make()]);
}

// An id that is unique on the page, although every view has its own copy of this module.
export function uniqueId() {
  const counter = Symbol.for("glassformer.ids");
  globalThis[counter] = (globalThis[counter] ?? 0) + 1;
  return `gf-${globalThis[counter]}`;
}

// --- the frame ---------------------------------------------------------------------------------------------

// In JupyterLab, plain keys are shortcuts wherever the focus is: arrows go from cell to cell, D D deletes one. A view keeps
// plain keys to itself; those with Ctrl, Alt or Cmd go on to the page.
function keepKeys(event) {
  if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
}

// The card that contains a view, with its title and its question.
export function card(el, { title, hint }) {
  const id = uniqueId();
  const root = h(
    "div",
    { class: "gf-widget", role: "group", "aria-labelledby": id, onkeydown: keepKeys },
    h("p", { class: "gf-title", id }, title),
    h("p", { class: "gf-hint" }, hint),
  );
  el.replaceChildren(root);
  return root;
}

const REST = 150; // milliseconds without a change after which the pointer counts as resting

// A view, from top to bottom: the card's heading, the controls, the drawing, one line that describes it, the numbers.
//   says(text)         sets the line. It is read aloud when the pointer has come to rest, and so are
//   describe(text)     the drawing's own label, for readers who cannot see it, and
//   tables(list)       the numbers, [{ caption, headers, rows }, …], if shown. Both are functions, called at that time.
//   rows               may also be a function, which is called only while the table is shown
//   busy(what, is)     marks the drawing as out of date while something is loaded or computed
//   line               the element of the line
//   hush(is)           while the line counts something, such as megabytes, it is not read aloud
export function frame(el, { title, hint }) {
  const controls = h("div", { class: "gf-controls" });
  const drawing = h("div", { class: "gf-drawing", role: "img", "aria-label": title });
  const line = h("p", { class: "gf-says", "aria-live": "polite" });
  const numbers = h("div", { class: "gf-numbers" });
  const details = h("details", { class: "gf-details" }, h("summary", {}, "Show the numbers"), numbers);
  const root = card(el, { title, hint });
  root.append(controls, drawing, line, details);

  let label = () => title;
  let list = () => [];
  const fill = () => {
    if (details.open) numbers.replaceChildren(...list().map(tableElement));
  };
  details.addEventListener("toggle", fill);

  let timer;
  let delay = 0; // the first time, everything is announced at once
  const rested = () => {
    delay = REST;
    line.removeAttribute("aria-busy");
    line.replaceChildren(line.textContent); // the same words again, which is what screen readers listen for
    put(drawing, { "aria-label": label() });
    fill();
  };
  const moved = () => {
    clearTimeout(timer);
    timer = setTimeout(rested, delay);
    put(line, { "aria-busy": "true" });
  };
  const underway = new Set();
  return {
    root,
    controls,
    drawing,
    line,
    hush: (is) => put(line, { "aria-live": is ? "off" : "polite" }),
    busy(what, is) {
      underway[is ? "add" : "delete"](what);
      if (underway.size) put(drawing, { "aria-busy": "true" });
      else drawing.removeAttribute("aria-busy");
    },
    says(text) {
      write(line, text);
      moved();
    },
    describe(text) {
      label = text;
      moved();
    },
    tables(of) {
      list = of;
      moved();
    },
  };
}

function tableElement({ caption, headers, rows }) {
  const body = (typeof rows === "function" ? rows() : rows).map((row) =>
    h("tr", {}, row.map((cell, i) => (i ? h("td", {}, cell instanceof Node ? cell : String(cell)) : h("th", { scope: "row" }, String(cell))))),
  );
  const head = headers.map((text) => (text ? h("th", { scope: "col" }, text) : h("td")));
  return h(
    "div",
    { class: "gf-table", role: "group", tabindex: 0, "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)),
  );
}

// --- controls ----------------------------------------------------------------------------------------------

function send(model, name, value) {
  model.set(name, value);
  model.save_changes();
}

// Sets several traits together, as far as their values differ.
export function setAll(model, changes) {
  const news = Object.entries(changes).filter(([name, value]) => model.get(name) !== value);
  for (const [name, value] of news) model.set(name, value);
  if (news.length) model.save_changes();
}

// Returns a function that may be called for each of several traits that change together; it calls act only once.
export function once(act) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    queueMicrotask(() => {
      isAsked = false;
      act();
    });
  };
}

// Calls show now, and again whenever one of the traits changes.
function follow(model, names, show) {
  for (const name of names) model.on(`change:${name}`, show);
  show();
}

// min and max may be functions, if other traits determine them: name those traits in `follows`. On a log scale, the handle
// moves by `step` decades and stops at three significant digits. With `values`, a list or a function, it moves from one of
// them to the next.
export function slider(model, name, { label, min, max, values, step, format = String, scale = "linear", follows = [] }) {
  const log = scale === "log";
  const given = (x) => (typeof x === "function" ? x() : x);
  const toHandle = values ? (value) => given(values).indexOf(value) : log ? Math.log10 : Number;
  const toValue = values ? (i) => given(values)[i] : log ? (t) => Number((10 ** t).toPrecision(3)) : Number;
  const limits = () => (values ? [0, given(values).length - 1] : [min, max].map((x) => toHandle(given(x))));
  const output = h("output", { class: "gf-value" });
  const input = h("input", { type: "range", step: step ?? (log ? 0.05 : 1) });
  // Whatever is in the input: a page's reader can change more of it than its handle.
  const inRange = (at) => Math.min(Math.max(values ? Math.round(at) : at, limits()[0]), limits()[1]);
  input.addEventListener("input", () => Number.isFinite(Number(input.value)) && send(model, name, toValue(inRange(Number(input.value)))));
  follow(model, [name, ...follows], () => {
    const text = format(model.get(name));
    [input.min, input.max] = limits();
    input.value = toHandle(model.get(name));
    input.setAttribute("aria-valuetext", text);
    output.textContent = text;
  });
  input.id = uniqueId(); // the value stays outside the label, so it is announced as the value, not as part of the name
  const caption = h("label", { class: "gf-label", for: input.id }, label);
  return h("div", { class: "gf-control gf-slider" }, caption, output, input);
}

// Up to four options are radio buttons; more are a drop-down list.
export function choice(model, name, { label, options }) {
  const indexOf = () => options.findIndex(([value]) => value === model.get(name));
  if (options.length > 4) {
    const select = h("select", { id: uniqueId() }, options.map(([, text], i) => h("option", { value: i }, text)));
    select.addEventListener("change", () => send(model, name, options[select.value][0]));
    follow(model, [name], () => (select.selectedIndex = indexOf()));
    return h("div", { class: "gf-control" }, h("label", { class: "gf-label", for: select.id }, label), select);
  }
  const group = uniqueId();
  const radios = options.map(([value]) =>
    h("input", { type: "radio", name: group, onchange: () => send(model, name, value) }),
  );
  follow(model, [name], () => radios.forEach((radio, i) => (radio.checked = i === indexOf())));
  return h(
    "fieldset",
    { class: "gf-control gf-choice" },
    h("legend", { class: "gf-label" }, label),
    h("div", { class: "gf-options" }, radios.map((radio, i) => h("label", {}, radio, h("span", {}, options[i][1])))),
  );
}

export function toggle(model, name, { label }) {
  const input = h("input", { type: "checkbox", onchange: () => send(model, name, input.checked) });
  follow(model, [name], () => (input.checked = model.get(name)));
  return h("label", { class: "gf-control gf-toggle" }, input, h("span", {}, label));
}

// A text from a field as every file can hold it: without halves of characters (surrogates).
export const whole = (text) => text.replace(/\p{Cs}/gu, "\ufffd");

export function textField(model, name, { label, maxLength }) {
  const input = h("input", { type: "text", maxlength: maxLength, spellcheck: "false", autocomplete: "off" });
  input.addEventListener("input", () => send(model, name, whole(input.value)));
  follow(model, [name], () => whole(input.value) !== model.get(name) && (input.value = model.get(name)));
  return h("label", { class: "gf-control gf-text" }, h("span", { class: "gf-label" }, label), input);
}

export const button = (label, onClick) => h("button", { class: "gf-button", type: "button", onclick: onClick }, label);

// A button for what cannot be undone: the first press only asks, by a new label, and the second acts. The question is taken back
// when the reader goes elsewhere.
//   asks(is)   is told when the question is asked, to say what would be lost, and when it is taken back
//   isLost()   whether there is anything to ask about
export function risky(label, sure, act, { asks = () => {}, isLost = () => true } = {}) {
  let isAsked = false;
  const turn = (is) => {
    isAsked = is;
    write(element, is ? sure : label);
    asks(is);
  };
  const element = button(label, () => {
    if (!isAsked && isLost()) {
      element.focus(); // not every browser does this for a button that is clicked
      return turn(true);
    }
    if (isAsked) turn(false);
    act();
  });
  // JupyterLab takes the focus back to the cell or notebook around a view.
  element.addEventListener("blur", ({ relatedTarget: next }) => isAsked && !next?.contains(element) && turn(false));
  return element;
}

// --- redrawing ---------------------------------------------------------------------------------------------

// Draw now, and then once in the next frame whenever a trait has changed or the view requests it.
export function redrawing(model, names, draw) {
  let frameId = null;
  const ask = () => {
    frameId ??= requestAnimationFrame(() => {
      frameId = null;
      draw();
    });
  };
  for (const name of names) model.on(`change:${name}`, ask);
  draw();
  const stop = () => {
    for (const name of names) model.off(`change:${name}`, ask);
    if (frameId !== null) cancelAnimationFrame(frameId);
  };
  return { ask, stop };
}

// The same for a view that makes no requests of its own. Returns a function that stops it.
export const onChange = (model, names, draw) => redrawing(model, names, draw).stop;

// Calls act when the element's width has changed, including when it is first put on the page.
export function onResize(element, act) {
  let width = element.clientWidth;
  const observer = new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    act();
  });
  observer.observe(element);
  return () => observer.disconnect();
}

// --- numbers ---------------------------------------------------------------------------------------------------------

// 10000 as 10,000, the same in every country.
const groups = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
export const grouped = (x) => groups.format(x);

// "1 block" and "2 blocks".
export const plural = (n, one) => `${grouped(n)} ${one}${n === 1 ? "" : "s"}`;

// A share in hundredths. Shares close to 0 or 1 are never rounded to exactly 0 or 1.
export function percent(share) {
  const hundredths = 100 * share;
  if (hundredths > 0 && hundredths < 1) return "< 1 %";
  return `${hundredths > 99 && hundredths < 100 ? "> 99" : fixed(hundredths, 0)} %`;
}

// A number with a true minus sign, and without a minus sign on zero.
export function fixed(x, digits) {
  const text = x.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}
