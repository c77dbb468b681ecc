"""Rules that select an epoch: what each looks at, and someone's own by import path."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from spare.errors import InputError
from spare.training.selection import RULES, Epoch, Rule, rule_named

CORRECT = np.array([1] * 18 + [0] * 2 + [1] * 3 + [0] * 7 + [0], dtype=bool)
GROUPS = np.array([0] * 20 + [1] * 10 + [2])


def epoch(number=4, *, inferred=None, groups=None, crossed=None) -> Epoch:
    """An epoch whose predictions are right where CORRECT says so."""
    labels = np.arange(len(CORRECT)) % 2
    predicted = np.where(CORRECT, labels, 1 - labels)
    logits = np.where(np.arange(2) == predicted[:, None], 2.0, 0.0)
    return Epoch(
        number, logits, labels, inferred_groups=inferred, groups=groups, cross_mistakes=crossed
    )


def test_each_rule_looks_at_what_it_says():
    score = {
        name: rule.score(epoch(inferred=GROUPS, groups=GROUPS, crossed=GROUPS))
        for name, rule in RULES.items()
    }
    assert score["val_average"] == pytest.approx(21 / 31)
    assert score["val_worst_class"] == pytest.approx(10 / 15)  # of class 1; class 0 has 11 of 16
    assert score["val_worst_group"] == 0.0  # the single example of group 2
    assert score["val_inferred_groups"] == pytest.approx(0.3)  # too small a group does not count
    assert score["val_cross_mistakes"] == pytest.approx(0.3)
    assert score["last"] == 4


def test_true_and_inferred_groups_and_cross_mistakes_are_not_confused():
    late = np.array([0] * 18 + [1] * 13)
    by_class = epoch(inferred=np.zeros(31, dtype=int), groups=GROUPS, crossed=late)
    assert RULES["val_inferred_groups"].score(by_class) == pytest.approx(21 / 31)
    assert RULES["val_worst_group"].score(by_class) == 0.0
    assert RULES["val_cross_mistakes"].score(by_class) == pytest.approx(3 / 13)


def test_a_class_without_validation_examples_is_left_out_of_the_worst_class():
    labels = np.array([0, 0, 2, 2, 2])  # nothing of class 1, and nothing of the last class
    logits = np.eye(4)[[0, 1, 2, 2, 1]]
    score = RULES["val_worst_class"].score(Epoch(1, logits, labels))
    assert score == pytest.approx(0.5)
    assert RULES["val_worst_class"].needs == "val labels"


def test_only_small_inferred_groups_fall_back_to_the_average():
    alone = epoch(inferred=np.arange(31))
    assert RULES["val_inferred_groups"].score(alone) == pytest.approx(21 / 31)


def test_a_rule_without_its_groups_and_an_unknown_rule_are_refused():
    for name in ("val_worst_group", "val_inferred_groups", "val_cross_mistakes"):
        with pytest.raises(InputError, match="needs groups"):
            RULES[name].score(epoch())
    with pytest.raises(InputError, match="did you mean 'val_average'"):
        rule_named("val_avrage")
    with pytest.raises(InputError, match="did you mean 'val labels'"):
        Rule("mine", "", "val label", lambda epoch: 0.0)
    with pytest.raises(InputError, match="because records store it as text; got one of type Rule"):
        rule_named(RULES["last"])


def test_an_epoch_offers_losses_confidences_and_probabilities():
    logits = np.array([[3.0, 0.0, 0.0], [1e4, 0.0, 0.0]])
    extreme = Epoch(1, logits, np.array([0, 1]))
    assert extreme.probabilities.sum(1) == pytest.approx([1, 1])
    assert extreme.confidences[1] == 1
    assert extreme.losses[0] == pytest.approx(-np.log(np.exp(3) / (np.exp(3) + 2)))
    assert np.isfinite(extreme.losses).all()  # even of a certain mistake
    assert extreme.correct.tolist() == [True, False]


def test_someones_own_rule_by_import_path(tmp_path, monkeypatch):
    (tmp_path / "my_rules.py").write_text(
        "from spare.training.selection import Rule\n"
        "def score(epoch):\n"
        "    return -epoch.losses.mean()\n"
        "LOW_LOSS = Rule('low_loss', 'lowest validation loss', 'val labels', score)\n"
    )
    monkeypatch.chdir(tmp_path)
    try:
        rule = rule_named("my_rules:LOW_LOSS")
        assert rule.score(epoch()) == pytest.approx(-epoch().losses.mean())
        with pytest.raises(InputError, match="did you mean 'LOW_LOSS'"):
            rule_named("my_rules:LOWLOSS")
    finally:
        sys.modules.pop("my_rules", None)
