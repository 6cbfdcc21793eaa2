"""Tests the switch from letters to words in a page: loaded on demand, over http and from disk, and after failures."""

import re

import pytest
from playwright.sync_api import expect
from small_site import write_views

from glassformer.widgets import GlassMachine
from tools.extensions.model_weights import scripts, vocabularies, weights

TEXT = "My lord, the king"
SAVES_DATA = "Object.defineProperty(navigator, 'connection', { value: { saveData: true } })"
NEEDED = {
    "http": {"words.bin", "words-vocabulary.bin"},
    "file": {*scripts("words", weights("words")), *scripts("words-vocabulary", vocabularies()["words"])},
}


@pytest.fixture(scope="module")
def doors(tmp_path_factory, serve):
    """Returns the addresses of a folder with a page of two machines: in letters, and in words from the start."""
    folder = tmp_path_factory.mktemp("words")
    views = [GlassMachine(text=TEXT), GlassMachine(reads="words", text=TEXT)]
    write_views(folder / "words.html", views, attributes=' style="min-height: 300vh"')
    return serve(folder)


class Machine:
    def __init__(self, visit, place=0):
        self.visit = visit
        self.root = visit.page.locator(".widget-host").nth(place)
        self.root.scroll_into_view_if_needed()
        visit.settle()
        self.note = self.root.locator(".gf-reads-note")
        self.again = self.root.get_by_role("button", name="Load the model that reads words again")

    def choose(self, name):
        self.root.get_by_role("radio", name=name, exact=True).check()

    def expect_in(self, reads):
        self.visit.rest()  # the switch is busy until then
        unit = {"letters": "character", "words": "token"}[reads]
        expect(self.root.get_by_role("button", name=f"One {unit}", exact=True)).to_be_visible()
        self.visit.rest()
        columns = self.root.locator("[data-part='text'] .gf-cells span").all_inner_texts()
        expected = {"letters": list(TEXT.replace(" ", "␣")), "words": ["My", "␣lord", ",", "␣the", "␣king"]}[
            reads
        ]
        assert [text for text in columns if text] == expected
        assert {"letters": "“g”, position 16", "words": "“␣king”, position 4"}[reads] in self.root.locator(
            ".gf-says"
        ).inner_text()

    @property
    def loaded(self):
        return [url.rpartition("/")[2] for url in self.visit.requests if "/models/words" in url]


@pytest.fixture
def machine(visit):
    return lambda door, place=0: Machine(visit("words.html", door=door, script=SAVES_DATA), place)


@pytest.mark.parametrize("door", ["http", "file"])
def test_words_come_when_they_are_chosen_and_once(machine, door):
    view = machine(door)
    view.expect_in("letters")
    assert view.loaded == []
    for _ in range(2):
        view.choose("words")
        view.expect_in("words")
        view.choose("letters")
        view.expect_in("letters")
    assert set(view.loaded) == NEEDED[door]
    assert len(view.loaded) == len(NEEDED[door])
    assert view.visit.complaints == view.visit.elsewhere() == []
    assert not any("shakespeare" in url for url in view.visit.requests)  # the first scene is in the page


@pytest.mark.parametrize("door", ["http", "file"])
def test_a_machine_in_words_goes_to_letters_and_back(machine, door):
    view = machine(door, 1)
    view.expect_in("words")
    view.choose("letters")
    view.expect_in("letters")
    view.choose("words")
    view.expect_in("words")
    assert view.visit.complaints == []


def test_after_a_failure_it_stays_in_letters_until_it_is_tried_again(machine):
    view = machine("http")
    view.visit.page.route("**/models/words*.bin", lambda route: route.abort())
    view.choose("words")
    expect(view.note).to_have_text(
        "The model that reads words could not be loaded. The connection failed. Check it, then try again; everything "
        "that this page already shows still works. Until then, the machine reads letters."
    )
    expect(view.root.get_by_role("button", name="One character", exact=True)).to_be_visible()
    view.choose("letters")
    expect(view.again).to_be_hidden()
    view.expect_in("letters")
    view.choose("words")  # in vain once more
    view.visit.rest()
    expect(view.again).to_be_visible()
    expect(view.note).to_have_text(re.compile("could not be loaded"))
    view.visit.page.unroute("**/models/words*.bin")
    view.again.press("Enter")
    view.expect_in("words")
    expect(view.again).to_be_hidden()
