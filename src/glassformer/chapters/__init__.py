"""The book's chapters, with one folder for everything that a chapter adds to the package.

chapter.toml has its title, question and minutes; quiz.toml has its quiz; predictions.toml has its predictions;
exercises.toml has the texts of its exercises. judges/ has a module for each exercise, named after it: the reference,
unless the package has one; then the checks in teaching order; then the classic mistakes that exercises.toml cannot
hold. Code that all chapters share is elsewhere: `exercises` runs the judges, and `widgets` has the kit of the views.
"""
