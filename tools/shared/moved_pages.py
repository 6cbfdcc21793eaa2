"""Names that pages once had, and those that they have now: paths in the project, without what a file's name ends with.

The site leads on from the old addresses (tools/extensions/publishing.py). On Colab (tools/colab.py) and Binder
(.binder/postBuild), each such notebook has both names.
"""

MOVED = {
    "notebooks/exercises/00-start-here": "notebooks/exercises/00-practice",
    "notebooks/exercises/01-the-whole-machine": "notebooks/exercises/01-practice",
    "notebooks/exercises/02-tokens-become-vectors": "notebooks/exercises/02-practice",
    "notebooks/exercises/03-attention": "notebooks/exercises/03-practice",
    "notebooks/exercises/04-putting-order-in": "notebooks/exercises/04-practice",
    "notebooks/exercises/05-the-stream-and-the-norms": "notebooks/exercises/05-practice",
    "notebooks/exercises/06-the-feed-forward-network": "notebooks/exercises/06-practice",
    "notebooks/exercises/07-the-block": "notebooks/exercises/07-practice",
    "notebooks/exercises/08-a-complete-gpt": "notebooks/exercises/08-practice",
    "notebooks/exercises/09-loss-and-the-way-back": "notebooks/exercises/09-practice",
    "notebooks/exercises/10-training": "notebooks/exercises/10-practice",
    "notebooks/exercises/11-generating": "notebooks/exercises/11-practice",
    "notebooks/exercises/12-three-families": "notebooks/exercises/12-practice",
    "notebooks/exercises/13-real-models": "notebooks/exercises/13-practice",
    "notebooks/exercises/14-when-it-almost-works": "notebooks/exercises/14-practice",
    "notebooks/exercises/15-your-own-gpt": "notebooks/exercises/15-practice",
}
