// A config.json that a view reads: of the shelf, opened from disk, or written by the reader. See config_file.py.
import { button, grouped, h, put, setAll, uniqueId, write } from "../kit/kit.js";
import { rich } from "../kit/rich.js";
import { resolved } from "./anatomy.js";
import { textOf } from "./model_file.js";
import { namedText, twice } from "./untrusted.js";

const OWN = "a file of your own";

const KINDS = [
  [(value) => value === null, "null"],
  [Array.isArray, "a list"],
  [(value) => typeof value === "string", "a text"],
  [(value) => typeof value === "number", "a number"],
  [(value) => typeof value === "boolean", "true or false"],
];

// A text as an object of fields, { given }, or the reason why it is not one, { trouble }.
export function parsed(text, longest) {
  if (text.length > longest) return { trouble: `These are ${grouped(text.length)} characters, and no config.json has more than ${grouped(longest)}.` };
  if (text.trim() === "") return { trouble: "There is nothing to read yet: paste a config.json, or take an example." };
  let given;
  try {
    given = JSON.parse(text.replace(/([[,]\s*)Infinity(?=\s*\])/g, "$11e999")); // JSON has no infinity; files of Mamba-2 do
  } catch (error) {
    const what = namedText(text);
    if (what) return { trouble: `This is not JSON but ${what}.` };
    const open = text.trim().startsWith("{") ? "" : " A config.json begins with { and ends with }.";
    return { trouble: `This is not JSON: ${error.message}.${open}` };
  }
  const trouble = twice(text, "This config.json");
  if (trouble) return { trouble: `${trouble}.` };
  const [, kind] = KINDS.find(([holds]) => holds(given)) ?? [];
  return kind ? { trouble: `A config.json is an object of fields, { … }, and this is ${kind}.` } : { given };
}

// The tables with which anatomy.js reads a file.
export const tablesOf = (model) => ({ families: resolved({ ...model.get("_families"), ...model.get("_more_families") }), parts: model.get("_parts"), classes: model.get("_classes") });

// A chapter that is written, as a link.
export const chapterOf = (chapter, model) => (Object.hasOwn(model.get("_chapters"), chapter) ? rich(`Chapter ${chapter}`, model) : "");

// The files in traits of a model, { trait: [label, the choice that is no model of the shelf] }; the first has a field, too.
//   also     traits that are set whenever the reader changes the first file
//   ask      draws the view again
// { choosers, field, drafts, entryOf, show, stop }: `drafts` also have a text that is too long for a trait, and `show(trouble)`
// brings the controls up to date.
export function configFiles(model, labels, { also = {}, ask }) {
  const [shelf, longest] = [model.get("_shelf"), model.get("_longest")];
  const [first] = Object.keys(labels);
  const texts = new Map(shelf.map(({ name, config }) => [name, JSON.stringify(JSON.parse(config), null, 2)]));
  const entryOf = (text) => {
    const { given } = parsed(text, longest);
    return given && shelf.find(({ name }) => texts.get(name) === JSON.stringify(given, null, 2));
  };
  const drafts = {};
  const take = (trait, text) => {
    drafts[trait] = text;
    if (text.length <= longest) setAll(model, { [trait]: text, ...(trait === first && also) });
    ask();
  };

  const years = [...new Set(shelf.map(({ date }) => date.slice(0, 4)))];
  function chooser([trait, [label, none = OWN]]) {
    const others = [h("option", { value: "" }, none)];
    const select = h("select", { id: uniqueId() }, others, years.map((year) => h("optgroup", { label: year }, shelf.filter(({ date }) => date.startsWith(year)).map(({ name }) => h("option", { value: name }, name)))));
    select.addEventListener("change", () => (select.value || trait !== first) && take(trait, texts.get(select.value) ?? ""));
    const file = h("input", { type: "file", accept: ".json,application/json", hidden: true, "aria-label": `${label}: a file` });
    file.addEventListener("change", async () => {
      const [chosen] = file.files;
      file.value = "";
      if (!chosen) return;
      try {
        take(trait, await textOf(chosen, longest));
      } catch (error) {
        write(opened, `${error.message}.`);
      }
    });
    const opened = h("span", { role: "status" });
    const element = h("div", { class: "gf-control" }, h("label", { class: "gf-label", for: select.id }, label), h("div", { class: "gf-chooser" }, select, button("Open a file …", () => file.click()), file), opened);
    return { element, show: () => (select.value = entryOf(drafts[trait])?.name ?? "") };
  }
  const choosers = Object.entries(labels).map(chooser);
  const field = h("textarea", { rows: 8, spellcheck: "false", autocomplete: "off", id: uniqueId(), class: "gf-json" });
  field.addEventListener("input", () => take(first, field.value));

  function show(trouble) {
    if (field.value !== drafts[first]) field.value = drafts[first];
    choosers.forEach((one) => one.show());
    put(field, { "aria-invalid": Boolean(trouble) });
  }

  // A text set by Python is read, whatever was pasted.
  const follow = () => Object.keys(labels).forEach((trait) => (drafts[trait] = model.get(trait)));
  follow();
  for (const trait of Object.keys(labels)) model.on(`change:${trait}`, follow);
  const stop = () => Object.keys(labels).forEach((trait) => model.off(`change:${trait}`, follow));
  return {
    choosers: choosers.map(({ element }) => element),
    field: h("div", { class: "gf-text" }, h("label", { class: "gf-label", for: field.id }, "The file: paste another here, or change it"), field),
    drafts,
    entryOf,
    show,
    stop,
  };
}
