"""The prose of docs/reproduction.md holds no results: digits and number words in it are known phrases.

A phrase is the paper's, a setting, or arithmetic. It is known with the words around its number, so the same number
elsewhere is found. What a rerun could change comes from the JSON. That holds for the templates, and for the words in
the modules that fill them in.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from studies.pages import TEMPLATES
from studies.paper import page
from studies.paper.study import STUDIES, stem

PHRASES = {
    "reproduction": (
        "(JASA 2022)",
        "sections 5.1 to 5.4 and the supplement",
        "small versions of the four experiments",
        "--workers 32",
        "runs all four at their full length",
        "compare four methods, to show",
        "uniform on 1 ∓ 1/√3, said to have variance 1 (it is 1/9)",
        "α₀ t^(-3/4), no cap",
        "(Two more misprints, the sign",
        "still assumed to be 1. Deviations are then a third of what they should be, and the coverage of a 95 % "
        "interval is 2 Φ(1.96 / 3) - 1 = 48.6 %",
        "(α₀ t^-.65, with a cap)",
        "exact binomial 95 % intervals in brackets (99.9 % in the tables",
        "bars are these 95 % intervals, and the dashed line is 95 %. Every method has one colour",
    ),
    "frozenlake": (
        "FrozenLake 8x8",
        "γ = .99",
        "tabular features, B = 200",
        "exact binomial 95 % intervals; dashed: 95 %",
        "both bootstraps reach 95 % within about 1,000 episodes (200 repeats)",
        "Three things are wrong with it: its law",
        "The three kinds of interval",
        "the three cover @",
        "A step size can fail in two ways",
        "where the two may cancel",
        "from 95 %, with the error bars of the repeats",
        "chance alone exceeds in 5 % of the cases",
        "95 % of the slopes of resampled repeats (lines), and of batches of 200 repeats (ticks)",
        "has slopes of -1 or less, so the method",
        "(the paper rescales all to begin at 1)",
        "the brackets contain 95 % of the slopes when",
        "an error below half a repeat counts as half a repeat",
        "by the 95 % intervals of these slopes",
        "With 200 repeats, as in the paper, an error below @ is noise; if every coverage were exactly 95 %, 95 % of "
        "the fitted slopes",
        "Batches of 200 of our repeats",
        "the two-sided intervals of every kind have errors of order 1/t: a slope of -1 would",
        "A few random features: the truth",
        "chosen, among four seeds, as an example",
        "(a quarter of 1 over the smallest eigenvalue of A)",
        "Theorem 4.2 of the paper",
        "steps and B = 200",
        "after each of 100 checkpoints takes",
        "of the 100 offline reports 10, evenly spaced, were run",
    ),
    "pong": (
        "gives 512 features of a state",
        "γ = .99, rewards × 0.1, no sticky actions, up to 30 no-ops",
        "of the six tried for each (η of .65 and .75), these were closest to least squares on 12 pilot games of each "
        "of three policies, repeated eight times",
        "not known for 512 units of a network",
        "to γ^ @ = 0.03 %)",
        "how far apart the two are",
        "for the start over 100 episodes, quantile",
        "the two kinds, here percentile and normal",
        "512 parameters are fitted to few states",
        "value of five policies, with 95 % intervals",
        "95 % intervals: percentile for the bootstrap",
        "whose recursion starts at 0",
        "(95 % intervals, in the order of ε)",
        "over the runs, with 95 % intervals",
        "For ε > 0 the differences",
        "of 512; the further they are below",
        "relative ridge of 1e-10",
    ),
    "random_mdp": (
        "50 states, 5 actions, 10 features, γ = .9;",
        "[two readings @ of it",
        "SAVE reaches 95 % with fewer observations",
        "for the two bootstraps",
        "in the limit they are 1.155, the price",
        "the three gradient methods, (a) GTD2",
        "with α₀ = 1, an auxiliary step of 1 and features of norm 1:",
        "after each of 100 checkpoints",
    ),
    "sepsis": (
        "Oberst and Sontag (2019)",
        "eight factors make 1440 states, three treatments 8 actions; the reward is -1 for death and +1 for discharge",
        "the four vital signs",
        "γ = .99",
        "ε = .05",
        "the eight factors as numbers, with an intercept (9 features)",
        "with an intercept (14)",
        "gradually over 20,000 episodes",
        "t^-.65",
        "the two kinds (here percentile and normal)",
        "a diabetic is one start in 29",
        "some of the 74 states of the start distribution",
        "fraction above 1 % is refused",
        "Two errors combine",
        "(beyond 1.5 standard errors)",
        "Use two columns of ratios (that of the target, and 1 for the behaviour)",
        "the two estimates",
        "lies above 0 in @",
        "(716 states, 25 actions",
    ),
    "theory": (),
    "limits": (
        "Propositions 4.1 to 4.3, Lemma 4.1 and Theorem 4.2",
        "Two problems for TD(0)",
        "(a) to (d) for four learning rates",
        "of (4.5), (4.6) and (4.7) leave",
        "*Propositions 4.1 and 4.3*",
        "every γ below η - 1/2",
        "over the last three lengths, which the propositions want below -(η - 1/2), and for which theory has -η/2",
        "*Lemma 4.1*",
        "relative to 1/√t",
        "*Proposition 4.2*",
        "*Theorem 4.2*",
        "replicas of variance 1 each",
        "95 % of the distances of two samples of one law",
        "two normal laws whose",
        "a law of variance 1, (b)",
        "that of two samples of one law",
    ),
    "markov_noise": (
        "memory of the recursion, 1 / (α_t λ) steps",
        "with a tenth of it",
        "more slowly than 1 / α_t",
        "in the four cases",
    ),
    "two_readings": (
        "Two readings of the random MDP",
        "Section 5.3 builds",
        "with probability 1 - ε, else any. *Mixture*",
        "with probability 1 - ε, else any action",
        "at 95 %, as the paper has it of its Figure 6b",
    ),
    "changing_behaviour": ("Section 6.1 of the paper", "(b) half of them"),
    "enumerations": (
        "max(0, -λ_min(M⁻¹ (A + A') / 2))",
        "of γ² E[ρ² P] is above 1:",
        "is above 1 in @",
        "the bound 1/√(1 - γ²)",
        "equation (4.1)",
        "(95 % of @ chains)",
        "Lemma S2.2",
    ),
    "statements": (),
    "made_by": (),
}
GENERATORS = {
    "overview": (
        "both cover 95 % within about 1,000 episodes",
        "errors fall faster than 1/√t, then as 1/t",
        "slopes of -1 or less: second order",
        "5b, text",
        "ε > 0 has a lower variance",
        "6, text",
        "the MSPBE falls over 20,000 episodes",
        "for 100",
    ),
    "page": (
        "meets 93 to 97 %",
        "at least 2",
        "time, 100 reports",
        "at least 100",
        "a stream 10 times as long",
        "at least 98 %",
        "at a tenth of them",
    ),
    "theory_page": ("bound, -(η - 1/2)", "theory, -η/2", "above 1"),
    "sepsis_page": ("two abnormal", "at least 98 %", "meets 93 to 97 %", "over 1 million", "under 1 s"),
    "pong_page": ("at least 19", "above 0", "95% interval"),
    "tables": (),
    "verdicts": (),
}
HEADINGS = re.compile(r"\(Figures? \d[ab]?(?: and \d)?\)|\*\*Figure \d[ab]?\.\*\*")
WORDS = (
    "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty hundred hundreds "
    "thousand thousands million once twice thrice half halves third thirds quarter quarters fifth eighth tenth tenths "
    "double doubled triple dozen several few"
)
NUMBER = re.compile(rf"(?<![A-Za-z])\d|[½⅓¼]|\b(?:{WORDS.replace(' ', '|')})\b", re.IGNORECASE)
NAMES = ["reproduction", *map(stem, STUDIES), "theory", "statements", "made_by"]


def prose(name: str) -> str:
    """A template on one line, without what is filled in and the names of files; captions belong to it."""
    text = re.sub(r"picture\(\"[^\"]*\"", "picture(", (TEMPLATES / f"{name}.md.j2").read_text())
    own = re.sub(r"{{(?! picture).*?}}|{%.*?%}|`[^`]*`|\]\([^)]*\)", " @ ", text)
    return HEADINGS.sub(" ", " ".join(own.split()))


def words_of(module: str) -> str:
    """The strings of a module that have more than one word, and the parts of those that are filled in."""
    tree = ast.parse(Path(page.__file__).with_name(f"{module}.py").read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    texts = [node.value for node in strings if isinstance(node.value, str) and " " in node.value.strip()]
    return " | ".join(" ".join(re.sub(r"{[^}]*}", "@", text).split()) for text in texts)


def results_in(text: str, phrases: tuple[str, ...]) -> list[str]:
    """The numbers that are in no known phrase, each with the words around it."""
    for phrase in sorted(phrases, key=len, reverse=True):
        text = text.replace(phrase, " ")
    return [text[max(0, found.start() - 30) : found.end() + 30] for found in NUMBER.finditer(text)]


@pytest.mark.parametrize("name", NAMES)
def test_prose_holds_no_results(name: str) -> None:
    assert not results_in(prose(name), PHRASES[name])


@pytest.mark.parametrize("name", NAMES)
def test_every_phrase_is_in_use(name: str) -> None:
    assert not [phrase for phrase in PHRASES[name] if phrase not in prose(name)]


@pytest.mark.parametrize("module", GENERATORS)
def test_what_fills_the_templates_holds_no_results(module: str) -> None:
    assert not results_in(words_of(module), GENERATORS[module])
    assert not [phrase for phrase in GENERATORS[module] if phrase not in words_of(module)]


def test_a_result_is_found_among_the_phrases() -> None:
    known = PHRASES["frozenlake"]
    assert not results_in("With tabular features, B = 200.", known)
    assert results_in("Before about 200 episodes the interval is wrong.", known)
    assert results_in("It is a few times as wide.", known)
    assert results_in("The interval covers in two thirds of the runs.", known)
