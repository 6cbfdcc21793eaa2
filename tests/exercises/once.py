"""Saves time where all classic mistakes are judged."""


def found_once(failure):
    """Works as `attempt._failure`, but runs each classic mistake only once per step instead of once per answer."""
    known = {}

    def find(exercise, step, function):
        if function not in (one.function for one in exercise.mistakes):
            return failure(exercise, step, function)
        if (step, function) not in known:
            known[step, function] = failure(exercise, step, function)
        return known[step, function]

    return find
