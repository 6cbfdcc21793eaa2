// What all drawings of a loss by step have in common: their size, and the look of their parts (curve.css).

export const [WIDTH, HEIGHT] = [360, 290];
export const BOX = { left: 40, right: 350, top: 12, bottom: 250 };
