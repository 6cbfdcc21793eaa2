"""Tests that the page reads files by the tables of `anatomy`, and counts what Python counts."""

from glassformer.anatomy import read, tables
from tests.anatomy.small import small
from tools.assets.config_classes import classes

CLASSES = classes()


def of_family(family):
    """Returns the tables of one family: all of them for a hundred files would take megabytes."""
    return tables() | {
        "families": {family: tables()["families"][family]},
        "classes": {family: CLASSES[family]},
    }


def test_the_page_counts_what_python_counts_in_every_family(call):
    files = {
        family: {**small(family, meta=True).config.to_dict(), "model_type": family} for family in CLASSES
    }
    found = call.each(
        "anatomy", "counted", [[given, of_family(family), 21] for family, given in files.items()]
    )
    for given, page in zip(files.values(), found, strict=True):
        seen = read(given)
        for name, weights in (
            ("weights", seen.weights()),
            ("active", seen.weights(active=True)),
            ("dropped", seen.weights(groups=("dropped",))),
        ):
            assert page[name] == (weights and {" ".join(key): n for key, n in weights.items()})
        assert page["kept"] == {word: numbers and list(numbers) for word, numbers in seen.kept(21).items()}
        assert page["multiplyAdds"] == seen.multiply_adds(21)
        kinds = [{"word": k.word, "parts": list(k.parts), "layers": list(k.layers)} for k in seen.kinds]
        assert page["kinds"] == kinds
