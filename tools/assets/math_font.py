"""Makes the font of formulas, book/site/vendor/latin-modern-math/math.woff2, from Latin Modern Math 1.959.

    python tools/assets/math_font.py latinmodern-math.otf     from CTAN's fonts/lm-math, or Debian's fonts-lmodern

It keeps the characters that formulas may use, which is a twentieth of the font. It needs the package brotli. The
licence of the font asks that a changed copy has a name of its own, so this one has.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

FONT = Path(__file__).resolve().parents[2] / "book/site/vendor/latin-modern-math/math.woff2"
NAME = "Glassformer Math, a part of Latin Modern Math"

ASCII = "".join(map(chr, range(0x21, 0x7F)))
GREEK = "αβγδεζηθικλμνξπρστυφχψωϵϕΓΔΘΛΞΠΣΦΨΩ"
OPERATORS = "\N{NO-BREAK SPACE}−·×±′…⋯⋮⊤⊙⊗∑∏√∞≈≠≤≥←→∈∂∇‖⟨⟩⌊⌋―"
# Browsers draw a letter that is alone as one of these.
ITALIC = "ℎ" + "".join(chr(c) for c in [*range(0x1D434, 0x1D455), *range(0x1D456, 0x1D468)])
ITALIC_GREEK = "".join(map(chr, range(0x1D6FC, 0x1D71C)))
CHARACTERS = ASCII + GREEK + OPERATORS  # what may be in MathML

# Characters that stretch. Chromium makes room for the widest form, whichever it draws, so some have no forms for
# what is more than two and a half lines high.
STRETCHED = "[]|‖∑∏⌊⌋"
STRETCHED_LITTLE = "(){}√"
TALLEST = 2500  # thousandths of an em


def write(source: str) -> None:
    """Writes the font."""
    font = TTFont(source, recalcTimestamp=False)  # the same bytes from the same source
    _stretch_less(font)
    options = subset.Options(layout_features=[], hinting=False, notdef_outline=True, drop_tables=["FFTM"])
    options.name_IDs = [0, 1, 4, 6, 13, 14]
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=CHARACTERS + ITALIC + ITALIC_GREEK)
    subsetter.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 4):
            record.string = NAME
        elif record.nameID == 6:
            record.string = "GlassformerMath"
    font.flavor = "woff2"
    font.save(FONT)


def _stretch_less(font: TTFont) -> None:
    variants = font["MATH"].table.MathVariants
    characters = font.getBestCmap() or {}
    little, much = ({characters[ord(one)] for one in these} for these in (STRETCHED_LITTLE, STRETCHED))
    upright = zip(variants.VertGlyphCoverage.glyphs, variants.VertGlyphConstruction, strict=True)
    flat = zip(variants.HorizGlyphCoverage.glyphs, variants.HorizGlyphConstruction, strict=True)
    for glyph, forms in [*upright, *flat]:
        if glyph not in much:
            forms.GlyphAssembly = None
            most = TALLEST if glyph in little else 0
            records = [one for one in forms.MathGlyphVariantRecord if one.AdvanceMeasurement <= most]
            forms.MathGlyphVariantRecord, forms.VariantCount = records, len(records)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
    print(f"{FONT}: {FONT.stat().st_size:,} bytes")
