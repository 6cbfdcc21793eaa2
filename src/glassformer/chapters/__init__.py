"""The book's chapters, with one folder for everything that a chapter adds to the package.

chapter.toml has its title, question and minutes; quiz.toml has its quiz; predictions.toml has its predictions;
exercises.toml has the texts of its exercises, and judges/ has one module for each exercise, with its checks and
classic mistakes. Code that all chapters share is elsewhere: `exercises` runs the judges, and `widgets` has the kit of
the views.
"""
