// A clinic: one sick model at a time, tests that have a price, and possible causes with reasons. See diagnose_it.py.
import { range } from "../../widgets/kit/maths.js";
import { button, fixed, frame, h, hold, percent, put, redrawing, risky, setAll, svg, uniqueId, write } from "../../widgets/kit/kit.js";
import { unpacked } from "../../widgets/engine/model.js";
import { cividis, legend, line, linear, paint, palette, roundNumbers, words, xAxis, yAxis } from "../../widgets/kit/plot.js";
import { isRight, questionElement, score } from "../../widgets/quiz.js";

const TRAITS = ["patient", "ordered", "answers"];
const SHADES = palette(cividis, range(256).map((i) => i / 255));

// --- what is found ----------------------------------------------------------------------------------------------------

// The total price of the ordered tests.
export const costOf = (tests, names) => names.reduce((sum, name) => sum + tests.find((test) => test.name === name).cost, 0);

// The tests that a patient fails, by name, the cheapest first.
export const failed = (tests, results) =>
  tests.filter(({ name }) => results[name]?.passed === false).toSorted((a, b) => a.cost - b.cost).map(({ name }) => name);

const both = (values, digits = 3) => values.map((x) => fixed(x, digits)).join(" and ");
const fromTo = ([low, high]) => (low === high ? fixed(low, 2) : `${fixed(low, 2)} … ${fixed(high, 2)}`);

function mapInWords({ sick, isRight: isSame }) {
  if (isSame) return "It is the same as the correct code’s.";
  const ahead = sick.ahead > 0 ? `${percent(sick.ahead)} of the weight is on later characters.` : "No weight is on later characters.";
  return `It differs from the correct code’s. Rows sum to ${fromTo(sick.rows)}, columns to ${fromTo(sick.columns)}. ${ahead}`;
}

// A result in words, after its mark.
function found(name, result) {
  if (name === "map") return ["", mapInWords(result)];
  if (name === "right") return ["", `Its own code reports ${both(result.reported)}; the correct code finds ${both(result.found)}.`];
  const loss = result.loss === undefined ? "" : `: the loss ends at ${fixed(result.loss, 3)}`;
  return result.passed ? ["✓", `It passes${loss}.`] : ["✗", `It fails${loss}.`];
}

// --- drawing ----------------------------------------------------------------------------------------------------------

const [WIDTH, HEIGHT] = [340, 238];
const BOX = { left: 46, right: 334, top: 12, bottom: 194 };
const HIGHEST = 4.6; // the highest loss that is drawn
const DECADES = [0.1, 0.3, 1, 3, 10, 30];

// A line through the points that are numbers; it is broken where one is missing.
function curve(values, x, y, style) {
  let isDown = false;
  const d = values.map((value, i) => {
    if (value === null) {
      isDown = false;
      return "";
    }
    const point = `${isDown ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    isDown = true;
    return point;
  });
  return svg("path", { d: d.join(""), class: style });
}

const plot = (...inside) => svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "gf-panel", "aria-hidden": "true" }, inside);

function charts({ sick, steps }, right, landmarks) {
  const count = sick[0].loss.length;
  const place = linear([0, steps], [BOX.left, BOX.right]);
  const x = (i) => place(((i + 0.5) * steps) / count);
  const across = () => xAxis(BOX, { values: roundNumbers(steps, 5), place, title: "step" });
  const all = (name, y) => [
    right.curves.map((run) => curve(run[name], x, y, "gf-clinic-line")),
    sick.map((run) => curve(run[name], x, y, "gf-clinic-line gf-clinic-sick")),
  ];
  const loss = linear([0, HIGHEST], [BOX.bottom, BOX.top]);
  const log = linear([Math.log(0.1), Math.log(40)], [BOX.bottom, BOX.top]);
  const length = (value) => log(Math.log(Math.max(value, 0.1)));
  return [
    h(
      "div",
      { class: "gf-panel-cell" },
      h("p", { class: "gf-panel-title" }, "Training loss, in nats per character"),
      plot(
        yAxis(BOX, { values: range(5), place: loss, lines: true, title: "loss (nats)" }),
        across(),
        Object.entries(landmarks).map(([name, value]) => [
          line(BOX.left, loss(value), BOX.right, loss(value), "gf-guide"),
          words(name, BOX.right, loss(value) - 4, "end"),
        ]),
        all("loss", loss),
      ),
    ),
    h(
      "div",
      { class: "gf-panel-cell" },
      h("p", { class: "gf-panel-title" }, "Length of the gradient"),
      plot(yAxis(BOX, { values: DECADES, place: length, lines: true, title: "length" }), across(), all("gradient", length)),
    ),
  ];
}

const sample = (style) => svg("svg", { viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": "true" }, line(0, 6, 34, 6, style));

function mapOf({ text, weights }, title) {
  const { shape, data } = unpacked(weights);
  const canvas = h("canvas", { class: "gf-clinic-map", role: "img", "aria-label": `${title}: attention over “${text}”` });
  paint(canvas, ...shape, (t, s) => SHADES[Math.round(255 * Math.min(1, data[t * shape[1] + s]))]);
  return h("figure", { class: "gf-clinic-figure" }, h("figcaption", { class: "gf-panel-title" }, title), canvas);
}

// --- view -------------------------------------------------------------------------------------------------------------

function render({ model, el }) {
  const view = frame(el, {
    title: "The clinic: what is wrong with this model?",
    hint: "Look at the curves and the text. Order tests with the buttons that name them, cheap ones first: a cost of 1 means a few forward passes, 2 a gradient, and 3 a training or someone else’s code. Then choose a diagnosis. You can choose again.",
  });
  view.drawing.setAttribute("role", "group");
  const patients = model.get("_patients");
  const rights = model.get("_right");
  const tests = model.get("_tests");
  const n = patients.length;
  const questions = patients.map(({ options }) => ({ text: "What is wrong with it?", options }));
  const tries = (p) => (model.get("answers")[p] ?? []).map((i) => [i]);
  const solved = (p) => tries(p).some((choice) => isRight(questions[p], choice));
  const changed = (trait, p, make) => setAll(model, { [trait]: model.get(trait).map((each, i) => (i === p ? make(each) : each)) });
  const rightOf = (p) => rights[patients[p].right];
  const go = (p) => setAll(model, { patient: Math.max(0, Math.min(n, p)) });

  // --- controls

  const previous = button("Previous", () => go(model.get("patient") - 1));
  const next = button("Next patient", () => go(model.get("patient") + 1));
  const who = h("span", { class: "gf-clinic-who" });
  const again = risky(
    "Start again",
    "Forget all tests and answers",
    () => setAll(model, { patient: 0, ordered: patients.map(() => []), answers: patients.map(() => []) }),
    { isLost: () => [...model.get("ordered"), ...model.get("answers")].some((each) => each.length) },
  );
  view.controls.append(h("div", { class: "gf-buttons" }, previous, next, who, again));

  // --- the parts

  const history = h("p", { class: "gf-clinic-history" });
  const panels = h("div", { class: "gf-panels" });
  const key = legendOf();
  const reported = h("p", { class: "gf-clinic-reported" });
  const texts = h("div", { class: "gf-panels gf-clinic-texts" });
  const tally = h("p", { class: "gf-panel-title" });
  const list = h("ul", { class: "gf-clinic-tests" });
  const maps = h("div", { class: "gf-clinic-maps" });
  const asked = h("div", { class: "gf-clinic-asked" });
  const name = h("p", { class: "gf-clinic-name" });
  const ward = h("div", {}, history, panels, key, reported, texts, tally, list, maps, asked, name);
  const review = h("div", {});
  view.drawing.append(ward, review);
  let question = null;

  function legendOf() {
    return h(
      "p",
      { class: "gf-legend" },
      h("span", { class: "gf-scale" }, sample("gf-clinic-line gf-clinic-sick"), "this patient"),
      h("span", { class: "gf-scale" }, sample("gf-clinic-line"), "a healthy model"),
      h("span", {}, "two seeds of each"),
    );
  }

  const paper = (title, text) => {
    const id = uniqueId();
    return h(
      "div",
      { class: "gf-panel-cell" },
      h("p", { class: "gf-panel-title", id }, title),
      h("div", { class: "gf-paper gf-clinic-paper", tabindex: 0, role: "group", "aria-labelledby": id }, text.replaceAll("\n", "⏎\n")),
    );
  };

  let rows = [];
  function listOf(p) {
    const can = tests.filter((test) => test.name in patients[p].results);
    rows = can.map((test) => {
      const act = () => {
        if (!model.get("ordered")[p].includes(test.name)) changed("ordered", p, (names) => [...names, test.name]);
      };
      const label = [test.name, `cost ${test.cost}`];
      const named = { "aria-label": `${label.join(", ")}: ${test.text}` };
      const order = h("button", { type: "button", class: "gf-button", onclick: act, ...named }, h("code", {}, label[0]), h("span", {}, label[1]));
      const result = h("span", { class: "gf-clinic-result" });
      return { test, order, result, element: h("li", {}, order, h("span", {}, test.text, " ", result)) };
    });
    return rows.map(({ element }) => element);
  }

  // What was found, once the answer is known.
  function nameOf(p) {
    const { bug, title, results } = patients[p];
    const names = failed(tests, results);
    const by = names.length ? ["Tests that find it, cheapest first: ", h("code", {}, names.join(", ")), "."] : "None of these tests finds it.";
    return [h("strong", {}, `${title}.`), " In the gallery of mistakes: ", h("code", {}, bug), ". ", by];
  }

  function drawPatient(p) {
    const patient = patients[p];
    const right = rightOf(p);
    const ordered = model.get("ordered")[p] ?? [];
    hold(history, [p], () => [h("strong", {}, `Patient ${p + 1}. `), patient.history]);
    hold(panels, [p], () => charts(patient, right, model.get("_landmarks")));
    write(reported, `Validation loss as its own code reports it: ${both(patient.reported)}. The healthy model’s: ${both(right.reported)}.`);
    hold(texts, [p], () => (patient.sample ? [paper("What it writes", patient.sample), paper("What a healthy model writes", right.sample)] : []));
    hold(list, [p], () => listOf(p));
    for (const { test, order, result } of rows) {
      const isOrdered = ordered.includes(test.name);
      const [mark, text] = isOrdered ? found(test.name, patient.results[test.name]) : ["", ""];
      put(order, { "aria-disabled": isOrdered });
      hold(result, [p, isOrdered], () => [
        mark && h("strong", { class: mark === "✓" ? "gf-yes" : "gf-no" }, `${mark} `),
        h("strong", {}, text),
      ]);
    }
    const cost = costOf(tests, ordered);
    write(tally, `Tests: ${ordered.length} ordered, cost ${cost}`);
    const seesMap = ordered.includes("map");
    maps.hidden = !seesMap;
    hold(maps, [p, seesMap], () => {
      if (!seesMap) return [];
      const { sick } = patient.results.map;
      return [
        mapOf(sick, "This code"),
        mapOf(right.map, "The correct code"),
        legend(cividis, "weight 0", 1, h("span", {}, `The book’s model over “${sick.text}”, block ${sick.block}, head ${sick.head}: a row for each query, a column for each key.`)),
      ];
    });
    hold(asked, [p], () => {
      question = questionElement(questions[p], p + 1, () => tries(p), ([i]) => changed("answers", p, (before) => [...before, i]), model);
      return question.element;
    });
    question.show();
    hold(name, [p, solved(p)], () => (solved(p) ? nameOf(p) : []));
  }

  function statusOf(p) {
    const [count, isSolved] = [tries(p).length, solved(p)];
    return isSolved ? `diagnosed at try ${tries(p).findIndex((choice) => isRight(questions[p], choice)) + 1}` : count ? "not yet diagnosed" : "not answered";
  }

  const totalCost = () => model.get("ordered").reduce((sum, names) => sum + costOf(tests, names), 0);
  const reviewed = () => ({
    caption: "All patients",
    headers: ["Patient", "What was wrong", "Your diagnosis", "Cost of your tests", "Found by"],
    rows: () =>
      patients.map(({ title, results }, p) => [
        p + 1,
        solved(p) ? title : "–",
        statusOf(p),
        costOf(tests, model.get("ordered")[p]),
        solved(p) ? failed(tests, results).join(", ") : "–",
      ]),
  });

  function drawReview() {
    const { headers, rows: make } = reviewed();
    hold(review, [JSON.stringify([model.get("answers"), model.get("ordered")])], () =>
      h(
        "div",
        { class: "gf-table", role: "group", tabindex: 0, "aria-label": "Review" },
        h(
          "table",
          {},
          h("thead", {}, h("tr", {}, headers.map((text) => h("th", { scope: "col" }, text)))),
          h("tbody", {}, make().map((row) => h("tr", {}, row.map((cell, i) => (i ? h("td", {}, String(cell)) : h("th", { scope: "row" }, String(cell))))))),
        ),
      ),
    );
  }

  function sentence(p) {
    const total = `${score(questions, patients.map((_, i) => tries(i)))} All tests so far cost ${totalCost()}.`;
    if (p === n) return total;
    const { sick, reported: own } = patients[p];
    const last = sick.map(({ loss }) => loss.at(-1));
    const right = rightOf(p).curves.map(({ loss }) => loss.at(-1));
    const ended = last.some((x) => x === null) ? "is not a number" : `ends at ${both(last)}`;
    return `Patient ${p + 1} of ${n}, ${statusOf(p)}: the loss ${ended}, the healthy model’s at ${both(right)}; the reported validation loss is ${both(own)}. ${total}`;
  }

  function draw() {
    const p = Math.min(model.get("patient"), n);
    ward.hidden = p === n;
    review.hidden = p < n;
    put(previous, { "aria-disabled": p === 0 }); // and not disabled, which would take the focus away
    put(next, { "aria-disabled": p === n });
    write(next, p === n - 1 ? "Review" : "Next patient");
    write(who, p === n ? "Review" : `Patient ${p + 1} of ${n}`);
    if (p < n) drawPatient(p);
    else drawReview();
    view.says(sentence(p));
    view.describe(() => (p < n ? `Loss and gradient of patient ${p + 1} and of a healthy model. ${sentence(p)}` : "Review of all patients"));
    view.tables(() => (p < n ? tablesOf(p) : [reviewed()]));
  }

  function tablesOf(p) {
    const { sick, steps } = patients[p];
    const { curves } = rightOf(p);
    const number = (x, digits) => (x === null ? "not a number" : fixed(x, digits));
    return [
      {
        caption: "Mean loss and longest gradient since the row above, seeds 0 and 1",
        headers: ["Up to step", "Loss", "Loss", "Healthy", "Healthy", "Gradient", "Gradient", "Healthy", "Healthy"],
        rows: () =>
          sick[0].loss.map((_, i) => [
            Math.round(((i + 1) * steps) / sick[0].loss.length),
            ...[...sick, ...curves].map(({ loss }) => number(loss[i], 3)),
            ...[...sick, ...curves].map(({ gradient }) => number(gradient[i], 2)),
          ]),
      },
      {
        caption: "Landmarks",
        headers: ["Landmark", "Loss"],
        rows: () => Object.entries(model.get("_landmarks")).map(([landmark, value]) => [landmark, fixed(value, 3)]),
      },
    ];
  }

  const drawn = redrawing(model, TRAITS, draw);
  return drawn.stop;
}

export default { render };
