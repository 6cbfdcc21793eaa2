"""The book's chapters, a folder for each: everything that a chapter brings to the package lies there.

chapter.toml has its title, its question and its minutes; quiz.toml its quiz; exercises.toml the words of its
exercises, and judge.py their checks and classic mistakes. What all chapters share is below: `exercises` runs the
judges, `widgets` has the kit of the views.
"""
