"""Rows of two engines beside each other."""
import math


def value(one):
    """As both engines mean it: whole numbers may come as texts or floats."""
    if isinstance(one, str):
        try:
            return float(one)
        except ValueError:
            return one
    return float(one) if isinstance(one, (int, float)) and not isinstance(one, bool) else one


def same(one, other):
    one, other = value(one), value(other)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other


def difference(found, wanted):
    """None if the rows are the same in the same order; else the first that differs."""
    for number, (one, other) in enumerate(zip(found, wanted)):
        if set(one) != set(other) or not all(same(one[key], other[key]) for key in one):
            return f"row {number}: {one} instead of {other}"
    if len(found) != len(wanted):
        return f"{len(found)} rows instead of {len(wanted)}"
    return None
