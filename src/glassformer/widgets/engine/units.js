// What a model reads one at a time, and what it is called wherever a view names it.
export const UNITS = {
  letters: { one: "character", many: "characters" },
  words: { one: "token", many: "tokens" },
};
