"""Judges of chapter 14, "When it almost works".

Most answers are tests: they get right and faulty models and have to tell them apart. A check is a part of the ward,
and a mistake is recognised by its verdicts on all of it. The models are written out by hand here, of a table and a
mean; what each has is known, and nothing of it comes from the reference.
"""
