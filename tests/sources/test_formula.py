"""The language of formulas: what parses, what is refused, and the same matrix as formulaic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from formulaic import model_matrix
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import joined

from inferl.errors import SettingError
from inferl.sources import table
from inferl.sources.logs.features.formula import parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("x", "x"),
        ("1+x", "1 + x"),
        (" x - 1 ", "x - 1"),
        ("0 + x", "x - 1"),
        ("-1 + x", "x - 1"),
        ("x + y + x", "x + y"),
        ("y:x + x + x:y", "x + y:x"),
        ("x*y", "x + y + x:y"),
        ("a*b*c", "a + b + c + a:b + a:c + b:c + a:b:c"),
        ("C(x)", "C(x)"),
        ("C(x, levels=['a', \"b\", 3, -1])", "C(x, levels=['a', 'b', '3', '-1'])"),
        ("poly(age,2)", "poly(age, 2)"),
        ("log(`heart rate`)", "log(`heart rate`)"),
        ("obs.sev + hour(at)", "obs.sev + hour(at)"),
        ("größe", "größe"),
    ],
)
def test_formulas(text: str, canonical: str) -> None:
    formula = parse(text)
    assert str(formula) == canonical
    assert parse(canonical) == formula


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a column or a function should stand at the end"),
        ("x +", "a column or a function should stand at the end"),
        ("x y", r"'\+' or '-' should stand at character 3, not 'y'"),
        ("x + 2", r"a column or a function should stand at character 5, not '2'"),
        ("x - y", r"only 1 can be taken away.* should stand at character 5, not 'y'"),
        ("x ** 2", "a column or a function should stand at character 4"),
        ("exp(x)", r"one of the functions C, poly, log, hour, age, .* character 1, not 'exp'"),
        ("poly(x)", r"',' should stand at character 7, not '\)'"),
        ("poly(x, 0)", r"the degree, a whole number from 1 to 99, should stand at character 9, not '0'"),
        ("poly(x, 1.5)", "the degree"),
        ("C(x, levels=[])", "a level in quotes should stand at character 14"),
        ("C(x, levels=['a', 'a'])", "the levels a, a are not all different"),
        ("C(x", r"'\)' should stand at the end"),
        ("log(C(x))", r"'\)' should stand at character 6, not '\('"),
        ("x; import os", r"should stand at character 2, not ';'"),
        ("__import__('os')", "one of the functions"),
        ("*".join("abcdefghi"), "joins 9 terms"),
        (":".join("abcdefghi"), "a product of 9 factors"),
    ],
)
def test_mistakes_in_formulas_are_named_with_their_place(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        parse(text)


@given(text=st.text("xC1-+*:()[]=,.'`\" 2levspoyhurag", max_size=30))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        formula = parse(text)
    except SettingError:
        return
    assert parse(str(formula)) == formula


def matrix(frame: pandas.DataFrame, formula: str) -> tuple[Any, tuple[str, ...]]:
    """All rows but the last, which has no next state."""
    source = table(frame.assign(reward=0.0), features=formula)
    features = joined(source).features
    return features, source.feature_names


FACTORS = ["x", "y", "C(k)", "g", "h", "flag", "poly(x, 3)", "log(z)"]


@st.composite
def formulas(draw: st.DrawFn) -> str:
    terms = draw(st.lists(st.lists(st.sampled_from(FACTORS), min_size=1, max_size=3, unique=True), max_size=4))
    texts = [draw(st.sampled_from([":", "*"])).join(term) for term in terms]
    intercept = draw(st.sampled_from(["1", "0", None])) if texts else "1"
    return " + ".join(texts if intercept is None else [intercept, *texts])


@settings(max_examples=50)
@given(formula=formulas(), seed=st.integers(0, 10**6))
def test_the_matrix_is_that_of_formulaic(formula: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 12
    frame = pandas.DataFrame(
        {
            "x": rng.normal(size=n),
            "y": rng.integers(0, 5, n),
            "z": rng.uniform(0.1, 3, n),
            "k": rng.integers(8, 12, n),
            "g": rng.choice(["er", "icu", "ward"], n),
            "h": rng.choice(["no", "yes"], n),
            "flag": rng.random(n) < 0.5,
        }
    )
    frame.loc[:1, "flag"] = [True, False]
    theirs = model_matrix(formula.replace("poly(x, 3)", "poly(x, 3, raw=True)"), frame)
    ours, names = matrix(frame, formula)
    assert ours.shape[1] == len(names) == theirs.shape[1], (formula, names, list(theirs.columns))
    assert np.allclose(ours, theirs.to_numpy(float)[:-1], rtol=1e-12), (formula, names, list(theirs.columns))


def test_the_names_of_features() -> None:
    frame = pa.table({"x": [1.0, 2.0], "g": ["b", "a"], "v": [[1.0, 2.0]] * 2, "reward": [0.0, 0.0]})
    source = table(frame, features="x + poly(x, 2):v + g + x:g")
    with pytest.raises(SettingError, match="has not been read yet"):
        _ = source.feature_names
    list(source)
    assert source.feature_names == ("1", "x", "g[b]", "x:v[0]", "x^2:v[0]", "x:v[1]", "x^2:v[1]", "x:g[b]")
    assert source.dimension == len(source.feature_names)
