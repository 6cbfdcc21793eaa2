"""A page at its desk (`glassformer.exercises.desk`), without threads, as in a browser."""

import json

from glassformer.exercises.desk import Desk

SETUP = "import numpy as np\nfrom no_such_library import nothing\nfrom glassformer.exercises import check, hint, keep\n"


def no_thread(*_):
    raise RuntimeError("can't start new thread")


class Page:
    """A page with a desk: it keeps the reader's files, and what it was told."""

    def __init__(self, folder, chapter="03", **settings):
        self.told, self.files = [], {}
        self.desk = Desk(chapter, SETUP, folder, lambda told: self.told.append(json.loads(told)), **settings)

    def ask(self, code, exercise="attention.scores", do="check", keep="no", earlier=None, **more):
        self.told.clear()
        asked = {"do": do, "exercise": exercise, "code": code, "keep": keep, "earlier": earlier or {}, **more}
        answer = json.loads(self.desk.ask(json.dumps(asked | {"files": self.files})))
        self.files = answer["files"]
        return answer

    def tells(self, says):
        return [told for told in self.told if told["says"] == says]


def text(spans):
    return "".join(span["text"] for span in spans)


def headlines(answer):
    return [text(panel["headline"]) for panel in answer["panels"]]
