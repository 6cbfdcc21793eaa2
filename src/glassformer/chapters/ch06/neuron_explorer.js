// What excites each neuron of the book's model, what it then promotes, and its values on a text. See neuron_explorer.py.
import { mulberry32, range } from "../../widgets/kit/maths.js";
import { button, choice, fixed, frame, h, hold, put, redrawing, setAll, toggle, uniqueId, write } from "../../widgets/kit/kit.js";
import { letters } from "../../widgets/engine/letters.js";
import { named, unpacked, visible } from "../../widgets/engine/model.js";
import { takesOwn } from "../../widgets/engine/own_model.js";
import { textReader } from "../../widgets/engine/text_reader.js";
import { reasonOf, weightsFor } from "../../widgets/engine/weights.js";
import { legend, tint } from "../../widgets/kit/plot.js";

const PROMOTED = 5;
const BEFORE = 18; // characters of a context, including the one that excites; fewer at the start of the model's window
const WAYS = ["positive", "negative"];

// --- maths ----------------------------------------------------------------------------------------------------------

// For one position: the neurons of every block.
export const look = (seen) => seen.filter(({ name }) => name === "neurons").map(({ array }) => array);

// The values of a neuron farthest from zero in the training text: [contexts, values, promoted, adds] for both signs.
export const largest = (memory) => Math.max(...memory.map(([, values]) => Math.abs(values[0])));

// --- words ----------------------------------------------------------------------------------------------------------

// With its sign, and three significant digits.
const signed = (x, digits = Math.abs(x) < 9.995 ? 2 : 1) => `${x > 0 ? "+" : ""}${fixed(x, digits)}`;

// In a context, every character is visible; spaces stay spaces.
const spelled = (text) => text.replaceAll("\n", "⏎");

// A context's last characters, up to the one at which the value is measured.
const ending = (context) => `“…${spelled([...context].slice(-7, -1).join(""))}”`;

const listed = (parts) => (parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts[0]);

export function sentence({ block, neuron, memory, open, here }) {
  const [most, least] = memory; // at its most positive, and at its most negative
  const peaks = `it is most positive after ${ending(most[0][0])} (${signed(most[1][0])}) and most negative after ${ending(least[0][0])} (${signed(least[1][0])})`;
  const says = open
    ? ` When positive, it favours ${listed([...most[2]].slice(0, 3).map(named))}; when negative, ${listed([...least[2]].slice(0, 3).map(named))}.`
    : " Which characters does it then favour? Guess, then look.";
  const share = here && Math.round((100 * Math.abs(here.value)) / largest(memory));
  const own = here ? ` In your text, its value at position ${here.at} (${named(here.character)}) is ${signed(here.value)}; in size, that is ${share} % of its largest.` : "";
  return `Block ${block}, neuron ${neuron}: in a million characters, ${peaks}.${says}${own}`;
}

// Of a reader's own model, nothing is known but the values on this text.
export function ownSentence({ block, neuron, here }) {
  const known = "Which passages make a neuron large, and what it favours, is known of the book’s model only.";
  if (!here) return known;
  return `Block ${block}, neuron ${neuron} of your model: its value at position ${here.at} (${named(here.character)}) is ${signed(here.value)}. ${known}`;
}

// --- view -----------------------------------------------------------------------------------------------------------

const TRAITS = ["text", "block", "neuron", "position", "guess", "opened"];

// One sign of a neuron's value: the contexts after which it is largest, and the characters that it then favours.
function wayOf(way) {
  const title = h("p", { class: "gf-panel-title" });
  const contexts = h("ol", { class: "gf-contexts" });
  const cells = range(PROMOTED).map(() => ({
    character: h("span", { class: "gf-promoted-is" }),
    bar: h("span", { class: "gf-promoted-bar" }),
    number: h("span", { class: "gf-promoted-adds" }),
  }));
  const promoted = h(
    "ol",
    { class: "gf-promoted" },
    cells.map(({ character, bar, number }) => h("li", {}, character, h("span", { class: "gf-promoted-track" }, bar), number)),
  );
  const element = h(
    "div",
    { class: "gf-way" },
    title,
    contexts,
    h("p", { class: "gf-panel-title" }, "It then favours (change of the logit per unit of the neuron)"),
    promoted,
  );

  function one(text, value, furthest, likelier, open) {
    const characters = [...text];
    const [before, exciting, next] = [characters.slice(0, -2).join(""), characters.at(-2), characters.at(-1)];
    const x = value / furthest;
    const style = `background: ${tint(x)}; color: var(--gf-ink)`;
    const came = open && likelier.includes(next) ? "gf-next gf-as-promoted" : "gf-next";
    return h(
      "li",
      {},
      h(
        "span",
        { class: "gf-context" },
        h("span", {}, characters.length <= BEFORE && h("span", { class: "gf-start" }, "start "), spelled(before), h("mark", { style }, visible(exciting)), h("span", { class: came }, open ? visible(next) : "?")),
      ),
      h("span", { class: "gf-excitement" }, signed(value)),
    );
  }

  function show([texts, values, likelier, adds], { furthest, most, open }) {
    write(title, `Most ${way} after`);
    contexts.replaceChildren(...texts.map((text, i) => one(text, values[i], furthest, [...likelier], open)));
    cells.forEach(({ character, bar, number }, i) => {
      write(character, open ? visible([...likelier][i]) : "?");
      bar.style.width = open ? `${Math.max(0, (100 * adds[i]) / most)}%` : "0";
      write(number, open ? signed(adds[i]) : "");
    });
  }
  return { element, show };
}

function render({ model, el }) {
  const view = frame(el, {
    title: "What makes one neuron large?",
    hint: model.get("_own")
      ? "Choose a neuron of your model, and see its value at each character of your text."
      : "Read the passages after which the neuron is most positive, or most negative. Guess which character it then favours, and check. After that, try a text of your own.",
  });
  const { n_layers: L, d_ff: F, context_length: context } = model.get("_config");
  const stored = model.get("_stored");
  const isOwn = Boolean(model.get("_own")); // a reader's own model
  const storedValues = unpacked(stored.values).data;
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  const send = (changes) => setAll(model, changes);

  // --- the data, and how it arrives

  let table; // facts about all neurons, once they were requested
  let late = ""; // why they are missing
  let read; // { text, positions }, once there is a model

  const seen = (text) => [...text].slice(0, context).join("");
  const isFirst = (block, neuron) => block === stored.block && neuron === stored.neuron;
  const memoryOf = (block, neuron) => (isFirst(block, neuron) ? stored.memory : table?.[block][neuron]);

  // The values of the neuron at the characters that were read.
  function valuesOf({ text, block, neuron }) {
    if (read?.text === seen(text)) return read.positions.map((blocks) => blocks[block][neuron]);
    return text === stored.text && isFirst(block, neuron) ? [...storedValues] : [];
  }

  const reader = textReader(model, {
    view,
    label: "Your text",
    seen,
    look,
    also: ["block", "neuron"],
    isStored: () => model.get("text") === stored.text && isFirst(model.get("block"), model.get("neuron")),
    show(reading, characters) {
      read = { text: characters.join(""), positions: [...reading.positions] };
      drawn.ask();
    },
    told: () => drawn.ask(),
  });

  const facts = weightsFor(model, { view, told: () => drawn.ask(), again: () => wantTable() });
  async function wantTable() {
    late = "";
    if (isOwn || table || isFirst(model.get("block"), model.get("neuron"))) return;
    view.busy("contexts", true);
    try {
      table = await facts.beside("neurons");
    } catch (error) {
      late = reasonOf(error);
    }
    view.busy("contexts", false);
    drawn.ask();
  }

  // --- controls

  const go = (block, neuron) => send({ block, neuron });
  const missed = model.get("_missed");
  function another() {
    const here = missed.findIndex(([block, neuron]) => block === model.get("block") && neuron === model.get("neuron"));
    go(...missed[(here + 5) % missed.length]); // five further on: another block each time; after sixteen steps, all were shown
  }
  function random() {
    const uniform = mulberry32(model.get("drawn") + 1);
    send({ drawn: model.get("drawn") + 1 });
    go(Math.floor(uniform() * L), Math.floor(uniform() * F));
  }

  const number = h("input", { type: "number", id: uniqueId(), class: "gf-which", min: 0, max: F - 1, step: 1 });
  number.addEventListener("input", () => {
    const neuron = Number(number.value);
    if (number.value !== "" && Number.isInteger(neuron) && neuron >= 0 && neuron < F) go(model.get("block"), neuron);
  });
  number.addEventListener("blur", () => (number.value = model.get("neuron")));

  view.controls.classList.add("gf-neuron-controls");
  view.controls.append(
    choice(model, "block", { label: "Block", options: range(L).map((i) => [i, i]) }),
    h("div", { class: "gf-control" }, h("label", { class: "gf-label", for: number.id }, `Neuron (0 to ${F - 1})`), number),
    ...(isOwn ? [] : [toggle(model, "guess", { label: "Guess first" })]),
    h("div", { class: "gf-buttons" }, !isOwn && button("Another clear neuron", another), button("A random neuron", random)),
  );

  // --- what is drawn

  const ways = WAYS.map(wayOf);
  const opener = button("", () => send({ opened: !model.get("opened") }));
  const line = letters({ label: "Your text; arrow keys go along it", ask: (position) => send({ position }) });
  line.element.classList.add("gf-own-line");
  const scale = h("div");
  reader.control.classList.add("gf-own-text");
  view.drawing.append(
    h("div", { class: "gf-ways" }, ways.map(({ element }) => element)),
    h("div", { class: "gf-buttons gf-opener" }, opener),
    reader.control,
    h("p", { class: "gf-panel-title gf-reads" }, "Its value at each character of your text"),
    line.element,
    scale,
  );

  let shown; // the neuron that the panels show, and how much of it

  function draw() {
    const state = Object.fromEntries(TRAITS.map((name) => [name, model.get(name)]));
    const { text, block, neuron, guess, opened } = state;
    if (Number(number.value) !== neuron || (number.value === "" && number !== document.activeElement)) number.value = neuron;
    const open = opened || !guess;
    const memory = memoryOf(block, neuron);
    const [characters, values] = [[...text].slice(0, context), memory || isOwn ? valuesOf(state) : []];
    const furthest = memory ? largest(memory) : Math.max(...values.map(Math.abs), 1e-6);
    if (memory && shown !== `${block} ${neuron} ${open}`) {
      shown = `${block} ${neuron} ${open}`;
      const most = Math.max(...memory.map(([, , , adds]) => adds[0]));
      ways.forEach((way, i) => way.show(memory[i], { furthest, most, open }));
      const [low, high] = [signed(-furthest), signed(furthest)];
      scale.replaceChildren(
        legend((t) => tint(2 * t - 1), low, high, h("span", {}, "The ends of the scale are its largest distance from zero in a million characters.")),
      );
    }
    if (isOwn && values.length) {
      hold(scale, [furthest], () => legend((t) => tint(2 * t - 1), signed(-furthest), signed(furthest), h("span", {}, "The ends of the scale are its largest distance from zero in this text.")));
    }
    for (const { element } of ways) {
      put(element, { class: `gf-way${memory ? "" : " gf-late"}` });
      element.hidden = isOwn;
    }
    write(opener, opened ? "Hide the answer" : "Which characters does it favour?");
    opener.parentElement.hidden = !guess || isOwn;
    const at = Math.min(state.position, Math.max(values.length - 1, 0));
    line.show(characters, values.length, at, (t) => ({ colours: tint, value: values[t] / furthest, says: signed(values[t]) }));
    const here = values.length > 0 && { character: characters[at], at, value: values[at] };
    const hindered = reader.words() || (memory || isOwn ? "" : facts.words() || late);
    const said = hindered || (isOwn ? ownSentence({ block, neuron, here }) : sentence({ block, neuron, memory, open, here }));
    view.says(said);
    const drawnToo = isOwn ? "" : "after which passages it is largest, what it favours, and ";
    view.describe(() => `Neuron ${neuron} of block ${block}: ${drawnToo}your text coloured by its value. ${said}`);
    view.tables(() => (memory ? tables({ block, neuron, memory, open, characters, values }) : isOwn ? [valuesTable(characters, values)] : []));
  }

  const drawn = redrawing(model, TRAITS, draw);
  const ofNeuron = ["block", "neuron"];
  const moved = () => {
    if (model.get("opened")) send({ opened: false });
    wantTable();
  };
  for (const name of ofNeuron) model.on(`change:${name}`, moved);
  wantTable();
  reader.start();
  return () => {
    for (const name of ofNeuron) model.off(`change:${name}`, moved);
    reader.stop();
    facts.stop();
    drawn.stop();
  };
}

function tables({ block, neuron, memory, open, characters, values }) {
  const each = (make) => memory.flatMap((way, i) => make(way).map((row) => [WAYS[i], ...row]));
  const contexts = ([texts, numbers]) =>
    texts.map((text, i) => [spelled([...text].slice(0, -1).join("")), signed(numbers[i], 3), open ? visible([...text].at(-1)) : "covered"]);
  const promoted = ([, , likelier, adds]) => [...likelier].map((character, i) => [visible(character), signed(adds[i], 3)]);
  return [
    {
      caption: `Where neuron ${neuron} of block ${block} is most positive and most negative, in a million characters`,
      headers: ["When", "Context", "Value", "What came next"],
      rows: () => each(contexts),
    },
    ...(open
      ? [
          {
            caption: "What it then favours, in logits per unit, before the final norm’s scaling",
            headers: ["When", "Character", "Adds"],
            rows: () => each(promoted),
          },
        ]
      : []),
    valuesTable(characters, values),
  ];
}

const valuesTable = (characters, values) => ({
  caption: "Its value at each character of your text",
  headers: ["Position", "Character", "Value"],
  rows: () => values.map((value, t) => [t, visible(characters[t]), signed(value, 3)]),
});

const ofOwn = ({ text }) => ({
  _stored: { text: "", block: 0, neuron: 0, values: { shape: [0], largest: 1, numbers: "" }, memory: null },
  _missed: [],
  block: 0,
  neuron: 0,
  position: [...text].length - 1,
  guess: false,
  opened: false,
});

export default { render: takesOwn(render, ofOwn) };
