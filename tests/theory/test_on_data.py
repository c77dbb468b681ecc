"""The studies that train on data sets, small."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from spare.data.inputs import TensorInputs
from spare.data.task import Split, Task
from spare.errors import DataError, InputError
from spare.methods.separation import SeparationOptions
from spare.theory import nsr, predict, reliance
from spare.theory.apart import masked_apart
from spare.theory.colored_digits import color_only, digit_only, palette_colors
from spare.theory.early import Early, early_of, watch
from spare.theory.forecast import POWER, SCALE, Forecast, advice, forecast
from spare.theory.linear_clock import LinearClock, linear_clock, reached_at
from spare.theory.noisy_colors import load, noise_to_signal, noisy

TIMES = np.logspace(-1, 4, 11)


def clock_of(points: np.ndarray, labels: np.ndarray) -> LinearClock:
    return linear_clock(points, labels, times=TIMES)


def shortcut_data(n: int = 400, size: float = 8.0, share: float = 0.95, seed: int = 0):
    """Two classes, weakly apart in one number and strongly, but spuriously, in another."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    place = np.where(rng.random(n) < share, labels, 1 - labels)
    points = rng.normal(0, 1, (n, 20))
    points[:, 0] += labels
    points[:, 1] += size * place
    return points.astype(np.float32), labels, place


def test_a_digit_loses_its_color_and_a_color_its_digit():
    colors = palette_colors("distinct")[[0, 3]]
    images = torch.full((2, 3, 4, 4), -1.0)
    images[:, :, 1, 1:3] = colors[:, :, None]
    white = digit_only(images)
    assert torch.equal(white[0], white[1])
    assert set(white.unique().tolist()) == {-1.0, 1.0}
    alone = color_only(images, colors, images)
    assert torch.equal(alone, images)  # here the typical shape is everyone's
    assert torch.equal(color_only(images, colors.flip(0), images)[0], images[1])


def test_watching_sees_the_weights_after_each_number_of_steps(toy):
    from dataclasses import replace

    from spare.training.settings import Settings

    early = Early(toy, None, Settings(epochs=2, batch_size=100, lr=0.1))  # type: ignore[arg-type]
    seen = {}
    watch(early, 0, [0, 3, 8], lambda model, step: seen.update({step: _weights(model)}))
    assert sorted(seen) == [0, 3, 8]
    assert not torch.equal(seen[0], seen[3])
    shorter = replace(early, settings=replace(early.settings, epochs=1))
    again = {}
    watch(shorter, 0, [3], lambda model, step: again.update({step: _weights(model)}))
    assert torch.equal(again[3], seen[3])


def _weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([each.detach().flatten().clone() for each in model.parameters()])


def test_early_training_is_that_of_discover():
    points, labels, _ = shortcut_data()
    early = early_of((points, labels), 0, 2, overrides={"early_lr": "0.05", "cross_fit": "0"})
    assert early.settings.lr == 0.05
    assert early.settings.epochs == 2
    assert early.settings.ema == 0
    with pytest.raises(InputError, match="unknown setting for spare on"):
        early_of((points, labels), 0, 2, overrides={"erly_lr": "0.05"})


@pytest.mark.parametrize("width", [20, 200])
def test_a_linear_learner_knows_gradient_flow(width):
    """Against small explicit steps of gradient descent on the same standardized inputs."""
    points, labels, _ = shortcut_data(120)
    points = np.random.default_rng(2).normal(size=(120, width)) + labels[:, None] * 0.5
    clock = clock_of(points, labels)
    x = points.astype(float) - points.mean(0)
    x *= np.sqrt(x.shape[1] / (x**2).sum(1).mean())
    wanted = np.eye(2)[labels]
    centered, outputs = wanted - wanted.mean(0), np.zeros((120, 2))
    time = TIMES[3]
    steps = 4000
    for _ in range(steps):
        pull = x @ (x.T @ (centered - outputs)) / (len(x) * x.shape[1])
        outputs += time / steps * pull
    assert np.allclose(clock.outputs[3], wanted.mean(0) + outputs, atol=1e-3)


def test_a_linear_learner_separates_a_shortcut_and_nothing_else():
    points, labels, _ = shortcut_data()
    assert clock_of(points, labels).separates_at is not None
    points, labels, _ = shortcut_data(share=0.5)
    assert clock_of(points, labels).separates_at is None


def test_a_fainter_feature_separates_later():
    times = []
    for size in (6.0, 3.0):
        rng = np.random.default_rng(1)
        _, labels, place = shortcut_data()
        points = rng.normal(0, 1, (400, 20)) * np.r_[0.2, np.ones(19)]
        points[:, 0] += size * (place - 0.5) * 0.5
        times.append(clock_of(points, labels).separates_at)
    assert times[0] is not None
    assert times[1] is not None
    assert times[1] > times[0]


def test_a_forecast_is_the_networks_start_times_the_linear_time():
    points, labels, _ = shortcut_data()
    clock = clock_of(points, labels)
    told = forecast(clock, [1.0, 2.0], [np.zeros((400, 2)), clock.outputs[5]])
    assert told.promised
    assert 1 < told.started < 2
    assert told.epoch == pytest.approx(
        told.started * SCALE * max(1, clock.separates_at) ** POWER, rel=1e-9
    )
    silent = LinearClock(TIMES, clock.outputs, np.zeros(len(TIMES)))
    assert forecast(silent, [1.0], [clock.outputs[5]]).epoch is None


def test_curves_that_never_reach_a_level_say_so():
    assert reached_at([1, 2], [0.1, 0.2], 0.5) is None
    assert reached_at([1, 2], [0.6, 0.2], 0.5) == 1


def test_predict_tells_how_fast_clusters_are_learned():
    points, labels, _ = shortcut_data(600)
    study = predict((points, labels), watched=4, cross_fit=0, early_lr=0.05, model="mlp")
    assert study.facts["promised"]
    assert study.facts["started_epoch"] is not None
    rows = study.tables["clusters"]
    assert {row["class"] for row in rows} == {"0", "1"}
    small = min(rows, key=lambda row: row["margin"])
    assert small["margin"] < 0 < max(row["margin"] for row in rows)
    assert ("SEPARATED" in str(study)) == (study.facts["clarity_now"] >= 0.7)
    with pytest.raises(InputError, match=r"^watched is at least 1|^watched is from 1"):
        predict((points, labels), watched=0)


@pytest.mark.parametrize(
    ("told", "clarity", "said"),
    [
        (Forecast(None, 0.1, 1.0, None), 0.9, ["SEPARATED: the", "The theory does not promise it"]),
        (Forecast(3.0, 0.9, 1.0, 2.0), 0.9, ["SEPARATED: the", "The theory promises it"]),
        (Forecast(None, 0.1, 1.0, None), 0.2, ["NOT PROMISED: a linear learner"]),
        (Forecast(30.0, 0.9, None, None), 0.2, ["PROMISED, but after 3 epochs the network has"]),
        (Forecast(30.0, 0.9, 0.5, 4.0), 0.2, ["PROMISED: a linear learner"]),
        (Forecast(30.0, 0.9, 2.0, 14.0), 0.2, ["PROMISED: a linear", "'spare discover' stops"]),
    ],
)
def test_advice_says_what_is_known(told, clarity, said):
    lines = advice(told, clarity, watched=3, budget=6, epochs=20)
    assert len(lines) == len(said)
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True))


def test_advice_names_a_budget_that_reaches_the_predicted_epoch():
    lines = advice(Forecast(30.0, 0.9, 2.0, 13.6), 0.2, watched=3, budget=6, epochs=20)
    assert lines[-1].endswith("6 of 20: if it finds nothing, try --set early_budget=0.7.")
    assert SeparationOptions(early_budget=0.7).looks_after(100, 20)[-1] >= 13.6
    lines = advice(Forecast(30.0, 0.9, 2.0, 31.0), 0.2, watched=3, budget=6, epochs=20)
    assert lines[-1].endswith("try more epochs, or a larger early_lr.")


def test_where_discover_looks_at_other_models_no_epoch_of_its_looks_is_named():
    told = Forecast(30.0, 0.9, 2.0, 14.0)
    lines = advice(told, 0.2, watched=3, budget=None, epochs=20)
    assert [line.split(":")[0] for line in lines] == ["PROMISED"]
    points, labels, _ = shortcut_data(200)
    study = predict((points, labels), watched=1, early_lr=0.05, model="mlp")
    assert study.facts["looks_until_epoch"] is None
    assert "'spare discover' looks at other models here" in str(study)


def test_reliance_is_on_the_color(real_data):
    study = reliance(data=real_data, train_size=3000, epochs=2, per_epoch=2, images=100)
    assert [row["epoch"] for row in study.tables["changes"]][-1] == 2
    assert len(study.tables["groups"]) >= 2
    last = study.tables["changes"][-1]
    assert last["ratio"] == pytest.approx(last["shortcut only"] / last["core only"])


def test_images_without_masks_cannot_be_taken_apart(tmp_path):
    with pytest.raises(InputError, match=r"^waterbirds cannot be taken apart without segment"):
        reliance(task="waterbirds")
    with pytest.raises(InputError, match=r"^shown_after is one of the 1 epochs, not 2\.$"):
        reliance(epochs=1)


def test_masks_divide_an_image(tmp_path):
    class Plan:
        choices = {"resize": 8, "keep_aspect": False}  # noqa: RUF012

    pixels = torch.rand(2, 3, 8, 8) + 1
    names = {"train": ["a/one.jpg", "a/two.jpg"]}
    task = Task("birds", Split(TensorInputs(pixels), np.array([0, 1])), None, None, ("x", "y"), {},
                names=names)  # fmt: skip
    early = Early(task, Plan, None)  # type: ignore[arg-type]
    (tmp_path / "a").mkdir()
    mask = np.zeros((8, 8), dtype=np.uint8)
    mask[2:5, 3:6] = 255
    Image.fromarray(mask).save(tmp_path / "a" / "one.png")
    parts = masked_apart(early, np.array([0]), tmp_path)
    inside = torch.from_numpy(mask > 0)
    assert torch.equal(parts.core[0][:, inside], pixels[0][:, inside])
    assert (parts.core[0][:, ~inside] == 0).all()
    assert (parts.shortcut[0][:, inside] == 0).all()
    assert torch.equal(parts.shortcut[0][:, ~inside], pixels[0][:, ~inside])
    with pytest.raises(DataError, match=r"^there is no folder of masks .*: name one with --set"):
        masked_apart(early, np.array([1]), tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"^there is no mask .*two\.png: put one there"):
        masked_apart(early, np.array([1]), tmp_path)


def test_noise_is_on_colors_alone(real_data):
    clean, loud = (load(real_data, 0, color_noise=noise, train_size=200) for noise in (0.0, 0.5))
    one, other = (task.train.inputs.take(np.arange(200)) for task in (clean, loud))
    assert np.array_equal(clean.train.labels, loud.train.labels)
    assert not torch.equal(one, other)
    background = one.amax(1) == -1
    assert (other.amax(1)[background] == -1).float().mean() > 0.99


def test_noise_stays_within_colors():
    colors = torch.tensor([[255, 0, 0]]).expand(1000, -1)
    changed = noisy(colors, 0.2, np.random.default_rng(0)).float()
    assert changed.min() >= 0
    assert changed.max() <= 255
    below = changed[:, 0][changed[:, 0] < 255]
    assert 255 - below.mean() == pytest.approx(0.2 * 255 * 0.798, rel=0.1)  # half a normal
    assert noise_to_signal(0.5, "distinct") == pytest.approx(0.42, abs=0.04)


@pytest.mark.long
def test_nsr_benches_every_noise(real_data, tmp_path):
    study = nsr(
        data=real_data, runs=tmp_path, noises=(0.0, 0.5), methods=("erm", "gb"), train_size=500,
        epochs=1, jobs=1,
    )  # fmt: skip
    rows = study.tables["worst-groups"]
    assert [(row["noise"], row["method"]) for row in rows] == [
        (0.0, "erm"), (0.0, "gb"), (0.5, "erm"), (0.5, "gb"),
    ]  # fmt: skip
    assert (tmp_path / "noise-0.5" / "gb-seed0" / "run.json").is_file()
    assert [row["examples seen"] for row in rows] == [500] * 4


def test_noises_are_different_numbers():
    with pytest.raises(InputError, match=r"^noises are one or more different numbers\.$"):
        nsr(noises=(0.5, 0.5))
