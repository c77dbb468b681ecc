"""Each result of the theory, at a small size."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from spare.errors import InputError
from spare.theory import dominance, growth, linear, network, separability
from spare.theory.dominance import optimum
from spare.theory.growth import GrowthOptions
from spare.theory.mixtures import Mixture, orthogonal_features, sampled
from spare.theory.sweeps import Point, Swept, _slopes

#: The module, which the function of the same name hides.
growing = sys.modules["spare.theory.growth"]


def test_growth_follows_the_theorem_inside_typical_inputs():
    study = growth(d=250, n=2000, width=2000, steps=5, sweep_seeds=0, precision="float64", seed=1)
    for slopes in study.facts["slopes"].values():
        assert all(abs(ratio - 1) < 0.12 for ratio in slopes.values())
    alone = {
        row["activation"]: row["alone / predicted"]
        for row in study.tables["slopes"]
        if row["feature"] == "spurious of class +1"
    }
    assert alone["erf"] > 1.3
    assert alone["tanh"] > 1.3


def test_growth_in_float32_is_that_in_float64():
    settings = {"d": 100, "n": 400, "width": 400, "steps": 5, "sweep_seeds": 0}
    one, other = (
        growth(activations=("erf",), precision=p, **settings).tables["slopes"]
        for p in ("float32", "float64")
    )
    for a, b in zip(one, other, strict=True):
        assert a["measured slope"] == pytest.approx(b["measured slope"], rel=1e-3)


def test_inputs_are_as_long_as_the_theory_has_them_with_features_of_the_users_own(monkeypatch):
    made = []
    monkeypatch.setattr(
        growing, "sampled", lambda *args, **more: made.append(sampled(*args, **more)) or made[-1]
    )
    features = orthogonal_features([1.0, 1.0, 2.0, 2.0], 20, torch.Generator().manual_seed(1))
    growth(features=features, n=4000, width=20, steps=5, sweep_seeds=0, activations=("erf",))
    assert (made[0].x ** 2).sum(1).mean().item() == pytest.approx(20, rel=0.03)


def test_a_feature_that_no_class_has_more_often_has_no_ratio():
    study = growth(
        d=60, n=200, width=40, core=2.0, spurious=3.0, correlation=0.5, steps=5, sweep_seeds=0,
        activations=("relu",),
    )  # fmt: skip
    assert "nan" not in str(study)
    assert np.isfinite(study.facts["largest_error"])


def test_sweeps_that_do_not_fit_in_memory_are_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr(network, "half_of_memory", lambda: 10**9)
    with pytest.raises(InputError, match=r"^d=4,000, n=8,000 and width=8,000 need 2\.6 GB"):
        growth(d=60, n=200, width=40, core=2.0, spurious=3.0)


def test_growth_takes_features_of_the_users_own():
    features = orthogonal_features([3.0, 3.0, 5.0, 5.0], 80, torch.Generator().manual_seed(1))
    small = {"d": 80, "n": 200, "width": 100, "steps": 5, "sweep_seeds": 0, "activations": ("erf",)}
    study = growth(features=features.numpy(), **small)
    rows = study.tables["slopes"]
    assert study.settings["core"] == pytest.approx(3)
    assert study.settings["spurious"] == pytest.approx(5)
    zeta_squared = 4 / (3 * np.pi)
    assert rows[0]["predicted slope"] == pytest.approx(2 * zeta_squared * 9 * 0.5 / 80)
    with pytest.raises(InputError, match="not orthogonal"):
        growth(features=np.ones((4, 80)), **small)


def test_the_first_step_has_the_initial_slope_whatever_the_step_size():
    mixture = Mixture(d=60, n=300, core=2.0, spurious=3.0)
    point = Point("d", 60, mixture, 200)

    def slopes(lr: float) -> list[float]:
        swept = Swept(2.0, 3.0, 0.95, lr, ("tanh",), 1, 1.0, "float64")
        return [row["measured"] / lr for row in _slopes([point], "tanh", swept, (0, 2, 0))]

    assert slopes(1e-3) == pytest.approx(slopes(0.1), rel=1e-3)


def test_errors_fall_with_the_size():
    study = growth(
        d=60, n=100, width=100, steps=5, core=2.0, spurious=3.0, sweep_seeds=2, sweep_scale=0.1,
        activations=("erf",),
    )  # fmt: skip
    assert study.facts["exponents"]["d"] < -0.3
    assert study.facts["exponents"]["width"] < -0.2


def test_separability_holds_for_nearly_all_examples():
    study = separability(d=250, n=2000, width=2000, steps=4, sweeps=False, correlation=0.98)
    assert study.facts["share_obeying"] > 0.98
    assert study.facts["on_their_side"] == 1
    last = {row["group"]: row for row in study.tables["groups"] if row["step"] == 4}
    assert last["majority"]["mean"] > last["alone"]["mean"] > last["other"]["mean"]
    # kappa adds deviations that are independent, so it is never below that of xi.
    assert study.facts["xi_standard_deviation"] <= study.facts["kappa"] * 1.02


def test_small_sizes_have_their_sweeps_too():
    study = separability(d=60, n=400, width=40, core=2.0, spurious=3.0, correlation=1.0, steps=1)
    assert len(study.tables["threshold"]) > 9
    assert "There is no minority, feature of the other majority, and no minority" in str(study)


def test_groups_part_only_where_the_gap_exceeds_the_noise():
    rows = separability(d=400, n=3200, width=1600, steps=1).tables["threshold"]
    assert rows[0]["correlation"] == 0.5
    assert rows[0]["on their side"] < 0.65
    assert all(row["on their side"] > 0.98 for row in rows if row["half gap / deviation"] > 4)


def test_the_linear_optimum_minimizes_what_it_should():
    r_c, ratio, p = 0.6, 0.4, 0.97
    a, b = optimum(ratio, r_c, p)

    def loss(a: float, b: float) -> float:
        noise = 2 * a**2 * r_c**2 + 2 * b**2 * (ratio * r_c) ** 2
        return p * (a + b - 1) ** 2 + (1 - p) * (a - b - 1) ** 2 + noise

    nearby = [loss(a + x, b + y) for x in (-1e-3, 0, 1e-3) for y in (-1e-3, 0, 1e-3)]
    assert min(nearby) == loss(a, b)


def test_dominance_is_near_the_linear_optimum_and_below_the_bound():
    study = dominance(
        d=100, n=1500, width=400, activations=("erf",), ratios=(0.1, 0.3, 1.0), minorities=False
    )
    assert study.facts["bound_held"] == {"erf": True}
    for row in study.tables["ratios"]:
        assert row["core"] == pytest.approx(row["optimum core"], abs=0.08)
        assert row["spurious"] == pytest.approx(row["optimum spurious"], abs=0.12)


def test_a_bound_is_not_said_to_hold_where_the_theorem_says_nothing():
    study = dominance(
        d=60, n=200, width=40, activations=("erf",), ratios=(0.5,), minorities=False
    )  # fmt: skip
    assert study.facts["bound_held"] == {}
    assert "no point has R_s at most 0.3 R_c" in str(study)


def test_the_network_is_near_the_linear_model_on_colored_digits(real_data):
    study = linear(
        data=real_data, n=300, width=1000, side=8, steps=6, activations=("tanh",), rate=False
    )
    assert study.facts["largest_gap"]["tanh"] < 0.05
    assert study.facts["constants_largest_difference"] < 1e-8


@pytest.mark.parametrize(
    ("study", "settings", "said"),
    [
        (growth, {"lr": 1e4}, r"^a step size \(lr\) of 10000 is beyond stability: .*\.$"),
        (growth, {"width": 101}, r"^the width is an even number"),
        (growth, {"widht": 100}, r"^unknown setting of this study 'widht': did you mean 'width'"),
        (growth, {"activations": ("relo",)}, r"^unknown activation 'relo'"),
        (growth, {"precision": "float16"}, r"^unknown precision 'float16'"),
        (growth, {"d": 10**6, "n": 10**6, "width": 10**6}, r"need .* GB, and half of this mach"),
        (separability, {"correlation": 2.0}, r"^correlation is from 0 to 1, not 2\.0\.$"),
        (separability, {"lr": 1e4}, r"beyond stability"),
        (dominance, {"width": 3}, r"^the width is an even number"),
        (dominance, {"lr": 1e5}, r"beyond stability"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(study, settings, said):
    small = {"d": 100, "n": 100, "width": 100}
    if study is growth:
        small |= {"steps": 5, "sweep_seeds": 0}
    with pytest.raises(InputError, match=said):
        study(**(small | settings))


def test_options_are_those_that_the_figures_were_made_with():
    options = GrowthOptions()
    assert (options.d, options.n, options.width) == (1000, 8000, 8000)
