// What any config.json says: layers, numbers, keys, and whether our code runs the model. See config_reader.py.
import { report } from "../../widgets/engine/anatomy.js";
import { chapterOf, configFiles, parsed, tablesOf } from "../../widgets/engine/config_file.js";
import { inBytes, much } from "../../widgets/engine/counting.js";
import { button, frame, grouped, h, hold, plural, put, redrawing, setAll, slider, write } from "../../widgets/kit/kit.js";
import { chapterLink, rich } from "../../widgets/kit/rich.js";

// --- reading --------------------------------------------------------------------------------------------------------

const EXACTLY = "`python -m glassformer params FILE` checks every value, and says exactly why our code refuses a file.";

// What is said of a text: { trouble } if it is no config.json, or { report, verdict, lacks, note }. The verdict follows from the
// layers and the keys; only Python checks every value.
export function read(text, { anatomy, longest }, positions) {
  const { given, trouble } = parsed(text, longest);
  if (trouble) return { trouble };
  const seen = report(given, anatomy, positions);
  const said = (verdict, note, lacks = []) => ({ report: seen, verdict, note, lacks });
  if (!seen.lacking) return said("Our code does not run it.", `${seen.trouble}. ${EXACTLY}`);
  if (seen.lacking.length) return said("Our code does not run it.", EXACTLY, seen.lacking);
  const unknown = seen.unknown.map((key) => [`\`${key}\`, which our code does not know and which may change what the model computes`, ""]);
  if (unknown.length) return said("Our code runs it only without some of its keys.", EXACTLY, unknown);
  if (seen.trouble) return said("It is larger than this page counts.", EXACTLY);
  return said("Our code runs it, in NumPy and in PyTorch.", EXACTLY);
}

// Numbers that are not known are null.
const sum = (numbers) => (numbers.includes(null) ? null : numbers.reduce((a, b) => a + b, 0));
const total = (weights, i) => weights && sum(weights.map((row) => row[i]));
const bytes = (kept, each) => kept && Math.round(each * kept[0] + 4 * kept[1]);
const number = (n) => (n === null ? "not known here" : grouped(n));

// A kind of layer in words: that of the file, and what it does not say, the network beside only where kinds differ in it.
function kindName({ word, labels }, kinds) {
  const groupOf = (kind, group) => JSON.stringify(kind.labels.filter(([, own]) => own === group));
  const isTold = ([label, group]) => (group === "each" ? kinds.some((kind) => groupOf(kind, group) !== groupOf({ labels }, group)) : !["full", "window"].includes(label));
  const more = labels.filter(isTold).map(([, , words]) => words);
  return `${word.replaceAll("_", " ")}${more.length ? ` (${more.join(", ")})` : ""}`;
}

const FILES = { dropped: "layers that predict further tokens, not among all", buffers: "learned biases of the router, not among all" };

// The rows of numbers, [what, [numbers]], of the weights and of the cache.
const weightRows = ({ weights, files }) => [
  ...(weights ?? []).map(([part, n, used]) => [part, [number(n), number(used)]]),
  ["all", [number(total(weights, 1)), number(total(weights, 2))]],
  ...Object.entries(FILES).filter(([group]) => files[group] !== 0).map(([group, what]) => [what, [number(files[group]), ""]]),
];

const allKept = (cached, i, each) => sum(cached.map((row) => bytes(row[i], each)));

const cacheRows = ({ cached }) => {
  const rows = cached.map(([word, kept, adds]) => [word.replaceAll("_", " "), bytes(kept, 2), bytes(kept, 1), bytes(adds, 2)]);
  const all = cached.length > 1 ? [["all", allKept(cached, 1, 2), allKept(cached, 1, 1), allKept(cached, 2, 2)]] : [];
  return [...rows, ...all].map(([what, now, small, more]) => [what, [number(now), number(small), more === 0 ? "nothing" : number(more)]]);
};

// One model in a sentence.
export function summary(name, { kinds, weights, cached, trouble }, positions) {
  if (trouble) return `${name}: nothing is counted, because ${trouble}.`;
  const n = sum(kinds.map(({ layers }) => layers));
  const which = kinds.length === 1 ? `${plural(n, "layer")} of one kind, ${kindName(kinds[0], kinds)}` : `${plural(n, "layer")}: ${kinds.map((kind) => `${grouped(kind.layers)} × ${kindName(kind, kinds)}`).join(", ")}`;
  const [all, used, kept, adds] = [total(weights, 1), total(weights, 2), allKept(cached, 1, 2), allKept(cached, 2, 2)];
  const isPlain = !kinds.some(({ labels }) => labels.some(([label]) => label === "experts"));
  const uses = used === null ? `It has ${much(all)} parameters.` : `Of its ${much(all)} parameters, a token uses ${used === all ? "all" : much(used)}${isPlain && used < all ? ": all but the other rows of the embedding" : ""}.`;
  const counts = all === null ? "How many parameters it has is not known here." : uses;
  const more = adds === 0 ? "adds nothing" : `adds ${plural(adds, "byte")}`;
  const keeps = kept === null ? "What its cache takes is not known here." : kept === 0 ? "It keeps nothing from one token to the next." : `After ${grouped(positions)} positions, its cache takes ${inBytes(kept)} in bfloat16, and the next position ${more}.`;
  return `${name} has ${which}. ${counts} ${keeps}`;
}

// --- view -----------------------------------------------------------------------------------------------------------

// The layers in their order, what repeats folded: each a cell of two halves, the part that mixes positions and the other.
function strip({ kinds, order }, chosen) {
  const cell = (n, k, isOneOf) => {
    const halves = ["mixes", "each"].map((group) => kinds[k].labels.filter(([, own]) => own === group).map(([label]) => h("span", { class: `gf-${label}` })));
    return h("span", { class: `gf-cell${k === chosen ? " gf-chosen" : ""}` }, h("span", { class: "gf-halves" }, halves.map((half) => h("span", { class: "gf-half" }, half))), (n > 1 || isOneOf) && h("small", {}, `${n} ×`));
  };
  return order.map(([times, unit]) => h("span", { class: `gf-unit${times > 1 ? " gf-repeats" : ""}` }, times > 1 && h("b", {}, `${times} ×`), unit.map(([n, k]) => cell(n, k, unit.length > 1))));
}

const inOrder = ({ kinds, order }) =>
  order.map(([times, unit]) => `${times > 1 ? `${times} times: ` : ""}${unit.map(([n, k]) => `${n} ${kindName(kinds[k], kinds)}`).join(", ")}`).join("; then ");

function render({ model, el }) {
  const view = frame(el, {
    title: "Read any config.json",
    hint: "Choose a model, open a file or paste one, and this page says what is in it. Nothing is sent anywhere.",
  });
  const chapters = model.get("_chapters");
  const anatomy = { ...tablesOf(model), words: { ...model.get("_words"), keys: { ...model.get("_keys"), ...model.get("_more_keys") } } };
  const tables = { anatomy, longest: model.get("_longest") };
  const inputs = configFiles(model, { text: ["Model"], other: ["Compare it with", "none"] }, { also: { kind: 0 }, ask: () => drawn.ask() });
  const { drafts, entryOf } = inputs;
  view.controls.append(...inputs.choosers, slider(model, "positions", { label: "Positions read", values: model.get("_lengths"), format: grouped }), inputs.field);

  // --- drawing

  const [answer, layers, numbers, said] = ["gf-verdict", "gf-layers", "gf-numbers-of", "gf-said"].map((style) => h("div", { class: style }));
  const summaryOfKeys = h("summary", { class: "gf-heading" });
  const keys = h("details", { class: "gf-keys" }, summaryOfKeys, said); // half of the view, for those who ask
  view.drawing.setAttribute("role", "group"); // role="img" must not contain buttons
  view.drawing.append(answer, layers, numbers, keys);
  view.drawing.before(view.line); // the drawing is long, and the line sums it up

  // What no chapter builds yet is drawn in chapter 15.
  const drawnIn = (chapter) => (Object.hasOwn(chapters, chapter) || !chapter ? chapter : "15");
  const remark = (words) => words && h("p", { class: "gf-listed" }, words);
  const heading = (words) => h("p", { class: "gf-heading" }, words);
  const box = ({ title, line, role, new: isNew, chapter }) =>
    h("li", { class: isNew ? "gf-new" : "", "data-role": role }, h("span", {}, title), h("code", {}, line.replaceAll("; ", "\n")), h("span", { class: "gf-chapter" }, chapterOf(drawnIn(chapter), model), isNew && h("small", {}, "new since GPT-2")));
  const table = (caption, headers, rows) =>
    h("table", { class: "gf-readout" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, headers.map((text) => (text ? h("th", { scope: "col" }, text) : h("td"))))), h("tbody", {}, rows.map(([what, cells]) => h("tr", {}, h("th", { scope: "row" }, what), cells.map((text) => h("td", {}, text))))));
  const keyCode = (key) => h("code", {}, key.split(/(?<=[._])/).map((piece) => [piece, h("wbr")]));
  const sentenceRow = ([key, value, says, chapter]) => h("div", { class: "gf-sentence" }, h("p", { class: "gf-field" }, keyCode(key), " ", h("code", { class: "gf-given-value" }, value)), h("p", {}, says), h("p", { class: "gf-chapter" }, chapterOf(chapter, model)));
  const listed = (title, names) => names.length > 0 && h("p", { class: "gf-listed" }, `${title}: `, names.map((name, i) => [i > 0 && ", ", h("code", {}, name)]), ".");
  const drawnLayers = (one, name, chosen) =>
    one.trouble ? [] : [h("div", { class: "gf-strip", role: "img", "aria-label": `The layers of ${name}, the first on the left: ${inOrder(one)}` }, strip(one, chosen))];

  // What is said of the published figures, for a model of the shelf.
  function published({ name, by, date, source, published: all, active, why }) {
    const figures = [all && `${all} parameters`, active && `${active} of them for a token`].filter(Boolean).join(", ");
    return h("p", { class: "gf-listed" }, `${name} is by ${by} (${date}); the file is that of ${source}.${figures ? ` Published: ${figures}.` : ""}${why ? ` ${why}` : ""}`);
  }

  // What our code makes of each file.
  function drawVerdict(files, names) {
    const runs = files.every(({ verdict }) => verdict?.startsWith("Our code runs it, "));
    put(answer, { class: `gf-verdict${runs ? " gf-runs" : ""}` });
    hold(answer, ["verdict", JSON.stringify(files.map(({ verdict, note, lacks, trouble }) => [verdict, note, lacks, trouble])), names], () =>
      files.map(({ report: seen, verdict, note, lacks = [], trouble }, i) => [
        h("p", {}, files.length > 1 && `${names[i]}: `, h("strong", {}, trouble ? "It cannot be read." : verdict), " ", trouble ?? (lacks.length ? (seen.lacking.length ? "It lacks:" : "They are:") : rich(note, model))),
        lacks.length > 0 && [
          h("ul", { class: "gf-lacks" }, lacks.map(([what, chapter]) => h("li", {}, rich(what, model), chapter && [" (", rich(`chapter ${drawnIn(chapter)}`, model), ")"]))),
          h("p", {}, rich(`${seen.lacking.length ? "The section “Where some of today’s models differ” of chapter 15 draws such parts. " : ""}${note}`, model)),
        ],
      ]),
    );
  }

  function drawOne(one, name, entry, positions) {
    const chosen = Math.min(model.get("kind"), (one.kinds?.length ?? 1) - 1);
    const hasLabel = (label) => one.kinds.some(({ labels }) => labels.some(([own]) => own === label));
    hold(layers, ["one", JSON.stringify([one.kinds, one.order, name, chosen])], () =>
      one.trouble
        ? []
        : [
            heading(`${plural(sum(one.kinds.map((kind) => kind.layers)), "layer")}, from the first to the last`),
            drawnLayers(one, name, chosen),
            remark("The upper half mixes positions, and the lower half treats each position by itself."),
            h("div", { class: "gf-kinds", role: "group", "aria-label": "Kinds of layers" }, one.kinds.map((kind, k) => {
              const pressed = button(`${grouped(kind.layers)} × ${kindName(kind, one.kinds)}`, () => setAll(model, { kind: k }));
              pressed.prepend(h("span", { class: "gf-halves", "aria-hidden": "true" }, ["mixes", "each"].map((group) => h("span", { class: "gf-half" }, kind.labels.filter(([, mine]) => mine === group).map(([label]) => h("span", { class: `gf-${label}` }))))));
              put(pressed, { "aria-pressed": k === chosen });
              return pressed;
            })),
            heading(`What a layer of the kind ${kindName(one.kinds[chosen], one.kinds)} does, step by step`),
            h("ol", { class: "gf-boxes" }, one.kinds[chosen].boxes.map(box)),
            one.beside.length > 0 && h("p", { class: "gf-listed" }, `The file also describes ${one.beside.join(" and ")}: such a part turns an image or a sound into vectors, which take positions of the same stream. It is not counted here.`),
          ],
    );
    hold(numbers, ["one", JSON.stringify([one.weights, one.files, one.cached, one.multiply_adds, entry?.name, positions])], () => [
      ...(one.trouble
        ? []
        : [
            table("Parameters", ["", "all", "used by a token"], weightRows(one)),
            remark("Of a table of embeddings, a token uses one row, unless the table is also the head."),
            table(`Bytes of the cache for one text after ${grouped(positions)} positions`, ["", "in bfloat16", "in 8 bits", "the next position adds"], cacheRows(one)),
            remark(`${hasLabel("window") ? "A window keeps one position fewer than it sees, because the next token brings its own. " : ""}${hasLabel("state") ? "A state stays in float32; beside it, the last inputs of the convolution are kept. " : ""}`),
            remark(one.multiply_adds === null ? "How many operations the next token takes is not known here." : `The next token takes ${grouped(one.multiply_adds)} multiplications and as many additions.${hasLabel("latent") ? " Scores are counted as they are computed from the cache itself, without making keys and values of it first." : ""}`),
          ]),
      entry && published(entry),
    ]);
    write(summaryOfKeys, `What each of the ${plural(one.said.length + one.programs.length + one.unset.length + one.unknown.length, "key")} says`);
    hold(said, ["one", JSON.stringify([one.said, one.programs, one.unset, one.unknown])], () => [
      one.said.map(sentenceRow),
      listed("These change no logit; other programs use them", one.programs),
      listed("These are null or empty, as if they were not there", one.unset),
      listed("These are not explained here", one.unknown),
    ]);
  }

  function drawTwo(pair, names) {
    const counted = pair.filter(({ trouble }) => !trouble);
    const stepsOf = (one) => [...new Map((one.kinds ?? []).flatMap(({ boxes }) => boxes).map((step) => [step.title, step])).values()];
    hold(layers, ["two", JSON.stringify([pair.map(({ kinds, order }) => [kinds, order]), names])], () =>
      pair.map((one, i) => {
        const others = new Set(stepsOf(pair[1 - i]).map(({ title }) => title));
        const alone = counted.length === 2 ? stepsOf(one).filter(({ title }) => !others.has(title)) : [];
        return [heading(names[i]), one.trouble ? h("p", {}, `Nothing is counted, because ${one.trouble}.`) : drawnLayers(one, names[i], -1), alone.length > 0 && [h("p", { class: "gf-listed" }, "Only here:"), h("ol", { class: "gf-boxes" }, alone.map(box))]];
      }),
    );
    const differing = (rowsOf, i) => {
      const found = counted.map((one) => new Map(rowsOf(one).map(([what, cells]) => [what, cells[i]])));
      const rows = [...new Set(found.flatMap((one) => [...one.keys()]))].map((what) => [what, found.map((one) => one.get(what) || "–")]);
      return rows.filter(([, [a, b]]) => a !== b).sort(([a], [b]) => (a === "all") - (b === "all"));
    };
    const arithmetic = ({ multiply_adds: n }) => [["multiplications for the next token", [number(n)]]];
    hold(numbers, ["two", JSON.stringify(counted.map(({ weights, files, cached, multiply_adds: n }) => [weights, files, cached, n]))], () =>
      counted.length < 2
        ? []
        : [["Parameters", weightRows, 0], ["Parameters that a token uses", weightRows, 1], ["Bytes of the cache, in bfloat16", cacheRows, 0], ["Bytes that the next position adds", cacheRows, 2], ["Arithmetic", arithmetic, 0]].map(([caption, rowsOf, i]) => {
            const rows = differing(rowsOf, i);
            return rows.length > 0 && table(caption, ["", ...names], rows);
          }),
    );
    const found = pair.map((one) => new Map(one.said.map((row) => [row[0], row])));
    const all = [...new Set(found.flatMap((rows) => [...rows.keys()]))];
    const differ = all.filter((key) => found[0].get(key)?.[1] !== found[1].get(key)?.[1]);
    write(summaryOfKeys, `What each of the ${plural(differ.length, "key")} that differ says; ${plural(all.length - differ.length, "other")} say the same`);
    hold(said, ["two", JSON.stringify(pair.map((one) => one.said))], () => {
      const of = (key) => {
        const rows = found.map((one) => one.get(key));
        const values = rows.map((row, i) => h("p", {}, `${names[i]}: `, row ? [h("code", { class: "gf-given-value" }, row[1]), ` ${row[2]}`] : "not in the file."));
        return h("div", { class: "gf-sentence" }, h("p", { class: "gf-field" }, keyCode(key)), h("div", {}, values), h("p", { class: "gf-chapter" }, chapterOf((rows[0] ?? rows[1])[3], model)));
      };
      return differ.map(of);
    });
  }

  function draw() {
    const positions = model.get("positions");
    const first = read(drafts.text, tables, positions);
    const second = drafts.other ? read(drafts.other, tables, positions) : null;
    inputs.show(first.trouble);
    const [entry, beside] = [entryOf(drafts.text), entryOf(drafts.other)];
    const names = [entry?.name ?? "Your file", beside?.name ?? "The other file"];
    const files = [first, second].filter(Boolean);
    drawVerdict(files, names);
    const readable = files.every((one) => one.report);
    for (const part of [layers, numbers, keys]) part.hidden = !readable;
    let words = "Nothing is counted.";
    if (readable) {
      const reports = files.map((one) => one.report);
      if (second) drawTwo(reports, names);
      else drawOne(first.report, names[0], entry, positions);
      words = reports.map((one, i) => summary(names[i], one, positions)).join(" ");
    }
    view.says(words);
    view.describe(() => `${files.map(({ trouble, verdict }) => trouble ?? verdict).join(" ")} ${words}`);
    view.tables(() =>
      !readable
        ? []
        : files.flatMap(({ report: one }, i) => [
            ...(one.trouble
              ? []
              : [
                  { caption: `The kinds of layers of ${names[i]}`, headers: ["Kind", "Layers", "What it does, in order"], rows: () => one.kinds.map((kind) => [kindName(kind, one.kinds), grouped(kind.layers), kind.boxes.map(({ title }) => title).join("; ")]) },
                  { caption: `The parameters of ${names[i]}`, headers: ["Part", "All", "Used by a token"], rows: () => weightRows(one).map(([what, cells]) => [what, ...cells]) },
                  { caption: `The cache of ${names[i]} after ${grouped(positions)} positions, in bytes`, headers: ["Kind", "bfloat16", "8 bits", "The next position adds, in bfloat16"], rows: () => cacheRows(one).map(([what, cells]) => [what, ...cells]) },
                ]),
            { caption: `The keys of ${names[i]}`, headers: ["Key", "In the file", "What it says", "Chapter"], rows: () => one.said.map(([key, value, says, chapter]) => [key, value, says, Object.hasOwn(chapters, chapter) ? chapterLink(chapter, model) : ""]) },
          ]),
    );
  }

  const drawn = redrawing(model, ["text", "other", "positions", "kind"], draw);
  return () => {
    inputs.stop();
    drawn.stop();
  };
}

export default { render };
