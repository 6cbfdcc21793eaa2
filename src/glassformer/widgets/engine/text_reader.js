// The reader's text in a view, and the model that reads it.
import { alphabet } from "./model.js";
import { Reading } from "./reading.js";
import { textField } from "./text_field.js";
import { reasonOf, weightsFor } from "./weights.js";

// A field for the reader's text, and the model that reads it. The stored results are enough until the reader wants something
// else. Then the weights are requested, and the text is read from its first character that differs.
//   view                   the frame, which is marked as busy while the text is read
//   label, fit             as in textField
//   seen(text)             the part of the text that the model gets, at most its context
//   look                   as in Reading
//   also                   other traits that change what is needed
//   isStored()             whether the stored results are what is needed
//   show(reading, characters)    called when some positions of these characters have been read
//   told()                 called when the result of `words` has changed
// Returns the field's control; words(), which says what the view is waiting for or why it fails, or ""; start() and stop().
export function textReader(model, { view, label, fit, seen, look, also = [], isStored, show, told }) {
  const { ids } = alphabet(model.get("_characters"));
  const names = ["text", ...also];
  let [reading, busy, trouble, latest] = [null, false, "", null];
  const weights = weightsFor(model, { view, told, again: () => follow() });
  const working = (is) => {
    busy = is;
    view.busy("text", is);
  };
  const charactersOf = (text) => [...seen(text)];

  // The part of a long text that the view shows.
  function part() {
    const text = model.get("text");
    const [all, some] = [[...text].length, charactersOf(text).length];
    if (some === all) return "";
    return `This view shows the ${text.startsWith(seen(text)) ? "first" : "last"} ${some} of the ${all} characters that the model knows.`;
  }
  const own = textField(model, { label, fit, adds: part });

  async function follow() {
    const text = model.get("text");
    const wanted = JSON.stringify(names.map((name) => model.get(name)));
    if (wanted === latest) return told();
    [latest, trouble] = [wanted, ""];
    working(reading !== null || !isStored());
    told();
    if (!busy) return;
    try {
      const transformer = await weights.model();
      if (wanted !== latest) return;
      reading ??= new Reading(transformer, look);
      const characters = charactersOf(text);
      const update = () => show(reading, characters);
      if (!(await reading.read(ids(characters.join("")), update))) return;
      busy = false;
      update();
      working(false);
    } catch (error) {
      if (wanted !== latest) return;
      [latest, trouble] = [null, reasonOf(error)];
      working(false);
      told();
    }
  }

  function words() {
    const waits = (busy || trouble) && weights.words();
    if (waits || trouble || !busy) return waits || trouble;
    const [read, all] = [reading?.positions.length, charactersOf(model.get("text")).length];
    if (reading === null) return "";
    return read < all ? `Reading: ${read} of ${all} characters …` : "";
  }

  return {
    control: own.control,
    words,
    start() {
      own.start();
      for (const name of names) model.on(`change:${name}`, follow);
      follow();
    },
    stop() {
      own.stop();
      for (const name of names) model.off(`change:${name}`, follow);
      weights.stop();
    },
  };
}
