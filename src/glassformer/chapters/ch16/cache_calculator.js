// What the cache of any model takes, and what each idea saved. See cache_calculator.py.
import { cacheReport } from "../../widgets/engine/anatomy.js";
import { chapterOf, configFiles, parsed, tablesOf } from "../../widgets/engine/config_file.js";
import { inBytes } from "../../widgets/engine/counting.js";
import { choice, frame, grouped, h, hold, plural, put, redrawing, setAll, slider, uniqueId } from "../../widgets/kit/kit.js";
import { range } from "../../widgets/kit/maths.js";
import { legendOf } from "../../widgets/kit/plot.js";

const MOST = 10_000_000; // positions, as in cache_calculator.py
const STOPS = [...range(7).flatMap((decade) => [1, 2, 5].map((n) => n * 10 ** decade)), MOST];
const WHOLE = "If every query head kept its own keys and values of the whole text, in every layer";
const UNKNOWN = "is not known here";

// --- counting -------------------------------------------------------------------------------------------------------

// Bytes of [numbers, numbers in float32]; null if they are not known.
export const bytes = (kept, bits) => kept && (kept[0] * bits) / 8 + 4 * kept[1];

// The number of positions that a reader has typed, as 1000000, 1,000,000 or 1_000_000; null if it is none.
export function positionsIn(text) {
  const digits = text.trim().replace(/(?<=\d)[,_ ](?=\d{3}(\D|$))/g, "");
  const n = /^\d+$/.test(digits) ? Number(digits) : 0;
  return n >= 1 && n <= MOST ? n : null;
}

// The steps from the cache without any idea to what it is: [{ what, chapter, of, bytes, before }].
export const stepsOf = (savings, bits) =>
  savings.map(({ kept, ...row }, n) => ({ ...row, bytes: bytes(kept, bits), before: n ? bytes(savings[n - 1].kept, bits) : null }));

// The powers of ten between which all numbers are, and at least a decade.
function decadesOf(numbers) {
  const logs = numbers.filter(Boolean).map(Math.log10);
  const [low, high] = [Math.floor(Math.min(...logs) - 0.2), Math.ceil(Math.max(...logs))];
  return [low, Math.max(high, low + 1)];
}

// --- words ----------------------------------------------------------------------------------------------------------

const three = (x) => grouped(Number(x.toPrecision(3)));

// By how much a step divides the bytes, or multiplies them.
export function factor(before, now) {
  if (!before || now === null) return "";
  const ratio = before / now;
  return ratio < 1 && three(1 / ratio) !== "1" ? `× ${three(1 / ratio)}` : `÷ ${three(Math.max(ratio, 1))}`;
}

const upper = (words) => words[0].toUpperCase() + words.slice(1);
const ofLayers = (of, layers) => of.map(([n, words]) => `${n === layers ? "all layers" : `${grouped(n)} of ${plural(layers, "layer")}`}: ${words}`);
const sum = (numbers) => (numbers.includes(null) ? null : numbers.reduce((a, b) => a + b, 0));

export function sentence(name, { context, weights, cached, savings }, positions, bits) {
  const kept = bytes(savings.at(-1).kept, bits);
  const adds = sum(cached.map(([, , more]) => bytes(more, bits)));
  const all = weights === null ? `The size of its weights ${UNKNOWN}.` : `The weights take ${inBytes((weights * bits) / 8)} at the same precision.`;
  if (kept === 0) return `${upper(name)} keeps nothing from one token to the next. ${all}`;
  const next = adds === 0 ? "adds nothing" : `adds ${inBytes(adds)}`;
  const longer = Number.isInteger(context) && positions > context ? ` This model was made for texts of at most ${plural(context, "position")}.` : "";
  return `After ${plural(positions, "position")}, the cache of ${name} ${kept === null ? UNKNOWN : `takes ${inBytes(kept)}; the next position ${next}`}. ${all}${longer}`;
}

// --- view -----------------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const view = frame(el, {
    title: "How large is the cache, and what made it smaller?",
    hint: "A model that writes keeps keys and values of what it has read. Choose a model, the length of the text and the precision, and see how many bytes that takes and what each idea saves.",
  });
  const [tables, ideas, longest] = [tablesOf(model), model.get("_ideas"), model.get("_longest")];

  // --- controls

  const files = configFiles(model, { text: ["Model"] }, { ask: () => drawn.ask() });
  const typed = h("input", { type: "text", inputmode: "numeric", autocomplete: "off", id: uniqueId() });
  typed.addEventListener("input", () => {
    const positions = positionsIn(typed.value);
    if (positions !== null) setAll(model, { positions });
    drawn.ask();
  });
  // What a reader has typed stays, until the number is another.
  const follow = () => positionsIn(typed.value) !== model.get("positions") && (typed.value = grouped(model.get("positions")));
  model.on("change:positions", follow);
  follow();
  const length = slider(model, "positions", { label: "Positions read", values: () => [...new Set([...STOPS, model.get("positions")])].sort((a, b) => a - b), format: grouped });
  for (const wide of [...files.choosers, length]) wide.classList.add("gf-wide-control");
  view.controls.append(
    ...files.choosers,
    choice(model, "bits", { label: "Bits of each number", options: [32, 16, 8, 4].map((n) => [n, String(n)]) }),
    length,
    h("div", { class: "gf-control" }, h("label", { class: "gf-label", for: typed.id }, "… or type how many"), typed),
    h("details", { class: "gf-file" }, h("summary", {}, "The file itself, to read, change or replace"), files.field),
  );

  // --- drawing

  const rows = h("ol", { class: "gf-savings" });
  const scale = h("div", { class: "gf-scale-of", "aria-hidden": "true" });
  const remarks = h("div");
  view.drawing.setAttribute("role", "group"); // role="img" must not contain links
  view.drawing.append(h("p", { class: "gf-hint" }, "The scale is logarithmic: from one grey line to the next, bytes grow tenfold."), rows, scale, remarks);
  view.drawing.before(view.line); // what the drawing explains

  function drawRows(name, { savings, layers, weights }, bits) {
    const steps = stepsOf(savings, bits);
    const [whole, last] = [steps[0], steps.at(-1)];
    const size = weights && (weights * bits) / 8;
    const [low, high] = decadesOf([...steps.map((one) => one.bytes), size]);
    const place = (n) => (n ? (100 * (Math.log10(n) - low)) / (high - low) : 0).toFixed(2);
    const bar = ({ bytes: now, before }) => {
      const [from, to] = [now, before ?? now].map(Number).sort((a, b) => a - b);
      return h("div", { class: "gf-track", "aria-hidden": "true" },
        h("span", { class: "gf-rest", style: `width: ${place(from)}%` }),
        from < to && h("span", { class: before > now ? "gf-saved" : "gf-added", style: `left: ${place(from)}%; width: ${(place(to) - place(from)).toFixed(2)}%` }),
        size && h("span", { class: "gf-weights", style: `left: ${place(size)}%` }));
    };
    const row = (step, title, small, style = "") =>
      h("li", { class: `gf-saving${style}` },
        h("p", { class: "gf-idea" }, title, small.map((one) => h("small", {}, one))),
        h("p", { class: "gf-amount" }, h("b", {}, step.bytes === null ? UNKNOWN : inBytes(step.bytes)), h("span", {}, factor(step.before, step.bytes))),
        bar(step));
    hold(rows, ["rows", JSON.stringify([steps, size, name])], () => [
      row(whole, WHOLE, []),
      steps.slice(1).map((step) => row(step, [`${upper(step.what)} `, h("span", {}, chapterOf(step.chapter, model))], ofLayers(step.of, layers))),
      row({ bytes: last.bytes, before: steps.length > 1 ? whole.bytes : null }, `What ${name} keeps`, [steps.length > 1 ? "all these ideas together" : "none of the ideas of this chapter"], " gf-total"),
    ]);
    const labelled = range(high - low + 1).map((n) => n + low).filter((n) => high - low <= 5 || n % 3 === 0).map((n) => 10 ** n);
    hold(scale, ["scale", low, high], () => labelled.map((n) => h("span", { style: `left: ${place(n)}%; transform: translateX(-${place(n)}%)` }, inBytes(n))));
    const mark = (style, words) => h("span", { class: "gf-meaning" }, h("span", { class: `gf-swatch ${style}` }), words);
    const [adds, isAsIf] = [steps.some(({ bytes: now, before }) => now > before && before), savings.some(({ what }) => what.includes("instead"))];
    hold(remarks, ["remarks", size, adds, isAsIf, steps.length], () => [
      legendOf(mark("gf-rest", "kept"), steps.length > 1 && mark("gf-saved", "saved"), adds && mark("gf-added", "added"), size && mark("gf-weights", `the weights, ${inBytes(size)}`)),
      isAsIf && h("p", { class: "gf-hint" }, "A layer with a state is first counted as if it attended like the model’s other layers. The state itself stays in 32 bits."),
    ]);
    put(rows, { style: `--gf-decades: ${high - low}` });
  }

  let kept = {};
  function reportOf(text, positions) {
    const key = JSON.stringify([text, positions]);
    if (kept.key !== key) {
      const { given, trouble } = parsed(text, longest);
      kept = { key, found: given ? cacheReport(given, tables, ideas, positions) : { trouble: trouble.replace(/\.$/, "") } };
    }
    return kept.found;
  }

  function draw() {
    const [positions, bits] = ["positions", "bits"].map((name) => model.get(name));
    const name = files.entryOf(files.drafts.text)?.name ?? "your model";
    const found = reportOf(files.drafts.text, positions);
    const isCounted = !found.trouble && bytes(found.savings[0].kept, bits) !== 0;
    const isTyped = positionsIn(typed.value) === positions;
    files.show(found.trouble);
    put(typed, { "aria-invalid": !isTyped });
    view.drawing.hidden = !isCounted;
    if (isCounted) drawRows(name, found, bits);
    const wrong = isTyped ? "" : `positions=${typed.value} must be a whole number from 1 to ${grouped(MOST)}. `;
    const said = found.trouble ? `Nothing is counted: ${found.trouble}.` : sentence(name, found, positions, bits);
    view.says(`${wrong}${said}`);
    const steps = isCounted ? stepsOf(found.savings, bits) : [];
    const amount = (n) => (n === null ? UNKNOWN : grouped(Math.round(n)));
    view.describe(() => `${said}${steps.map((step) => ` ${step.what ? upper(step.what) : WHOLE}: ${step.bytes === null ? UNKNOWN : inBytes(step.bytes)}${step.before ? `, ${factor(step.before, step.bytes)}` : ""}.`).join("")}`);
    view.tables(() =>
      !isCounted
        ? []
        : [
            {
              caption: `What each idea saved in ${name}, in bytes after ${plural(positions, "position")} at ${bits} bits`,
              headers: ["Idea", "Bytes after it", "Factor", "Layers", "Chapter"],
              rows: steps.map((step) => [step.what || "none of them", amount(step.bytes), factor(step.before, step.bytes), ofLayers(step.of, found.layers).join("; "), step.chapter && chapterOf(step.chapter, model)]),
            },
            {
              caption: "What each kind of layer keeps, in bytes",
              headers: ["Kind", "Kept now", "The next position adds"],
              rows: found.cached.map(([word, now, adds]) => [word.replaceAll("_", " "), amount(bytes(now, bits)), amount(bytes(adds, bits))]),
            },
          ],
    );
  }

  const drawn = redrawing(model, ["text", "positions", "bits"], draw);
  return () => {
    model.off("change:positions", follow);
    files.stop();
    drawn.stop();
  };
}

export default { render };
