"""Settings in three layers, and presets that are valid everywhere."""

from __future__ import annotations

import inspect
import tomllib
from importlib import resources

import pytest

from spare.datasets import DATASETS, Dataset, Source, locate
from spare.datasets.source import OWN_DATA
from spare.errors import InputError
from spare.methods import METHODS
from spare.runs.plan import make_plan
from spare.runs.values import parse_overrides


@pytest.mark.parametrize("kind", OWN_DATA)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_presets_of_own_data_are_valid_and_use_no_group_label(kind, method, tmp_path):
    plan = make_plan(Source("mine", kind, tmp_path), method, {})
    assert plan.settings.selection in ("val_average", "val_inferred_groups", "last")
    assert plan.model.model


@pytest.mark.parametrize("task", DATASETS)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_preset_is_valid_for_every_method(task, method):
    plan = make_plan(locate(task), method, {})
    assert plan.source.name == task
    assert "epochs" in plan.flat_settings()


def test_every_preset_belongs_to_a_task_and_names_only_methods_that_exist():
    for file in (resources.files("spare") / "presets").iterdir():
        assert file.name.removesuffix(".toml") in {*DATASETS, *OWN_DATA.values()}
        methods = tomllib.loads(file.read_text()).get("methods", {})
        assert set(methods) <= set(METHODS)


def test_the_papers_values_for_colored_mnist():
    plan = make_plan(locate("cmnist"), METHODS["spare"], {})
    settings, options = plan.flat_settings(), plan.flat_options()
    assert (options["early_lr"], options["early_weight_decay"]) == (1e-3, 1e-3)
    assert (settings["batch_size"], settings["epochs"]) == (32, 20)
    assert (settings["palette"], settings["p_corr"]) == ("paper", 0.995)


@pytest.mark.parametrize("task", ["cmnist", "digits"])
def test_a_request_says_what_validation_is_like(task):
    plans = [
        make_plan(locate(task), METHODS["erm"], overrides)
        for overrides in ({}, {"val_like": "train"})
    ]
    assert [plan.request(0)["settings"]["val_like"] for plan in plans] == ["test", "train"]
    assert plans[1].command(0).endswith("--set val_like=train")


def test_the_command_line_wins_and_words_become_values():
    overrides = parse_overrides(
        ["lr=0.1", "nesterov=yes", "lr_steps=3,5", "palette = distinct", "power=1,1,2,1,1"]
    )
    plan = make_plan(locate("cmnist"), METHODS["spare"], overrides)
    assert plan.settings.lr == 0.1
    assert plan.settings.nesterov is True
    assert plan.settings.lr_steps == (3, 5)
    assert plan.choices["palette"] == "distinct"
    assert plan.options.power == (1.0, 1.0, 2.0, 1.0, 1.0)
    assert plan.flat_options()["power"] == [1.0, 1.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize("value", ["3", "auto", "val"])
def test_an_epoch_or_a_rule_for_when_to_separate(value):
    options = make_plan(locate("cmnist"), METHODS["spare"], {"separate_at": value}).options
    assert str(options.separate_at) == value


@pytest.mark.parametrize(
    ("overrides", "lr"),
    [
        ({}, 0),
        ({"weights": "none"}, 0.01),
        ({"model": "conv4"}, 0.01),
        ({"model": "small_cnn", "early_lr": "0.002"}, 0.002),
    ],
)
def test_an_early_network_from_scratch_learns_at_a_higher_rate(overrides, lr, tmp_path):
    source = Source("mine", "folder", tmp_path)
    for name in ("spare", "jtt"):
        plan = make_plan(source, METHODS[name], overrides)
        assert (plan.options.early_lr, plan.settings.lr) == (lr, 0.001)
    assert make_plan(source, METHODS["erm"], {"weights": "none"}).settings.lr == 0.001


@pytest.mark.parametrize(
    ("method", "overrides", "layers", "times"),
    [
        ("spare", {}, "head", 10),
        ("bridge", {}, "head", 10),
        ("spare", {"model": "resnet50"}, "head", 10),
        ("spare", {"weights": "none"}, "all", 0),
        ("spare", {"model": "conv4"}, "all", 0),
        ("spare", {"model": "conv4", "cross_fit": "3"}, "all", 3),
        ("spare_paper", {}, "all", 0),
    ],
)
@pytest.mark.parametrize("task", ["folder", "waterbirds", "celeba", "urbancars"])
def test_a_pretrained_network_is_asked_before_it_is_trained(
    task, method, overrides, layers, times, tmp_path
):
    source = Source("mine", "folder", tmp_path) if task == "folder" else locate(task)
    options = make_plan(source, METHODS[method], overrides).options
    assert (options.early_layers, options.cross_fit) == (layers, times)
    assert bool(options.early_lrs) == (layers == "head")


def test_another_methods_option_is_unknown_here():
    with pytest.raises(InputError, match="unknown setting for erm on cmnist"):
        make_plan(locate("cmnist"), METHODS["erm"], {"k_max": "3"})


def loads(**choices):
    """A data set whose load has these choices."""
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_)
        for name, (type_, default) in choices.items()
    ]

    def load(data, seed, progress=None, **given):
        raise NotImplementedError

    load.__signature__ = inspect.Signature(parameters)
    load.__annotations__ = {name: type_ for name, (type_, _) in choices.items()}
    return locate(Dataset(load, title="mine", settings={"model": "linear"}))


def test_a_choice_with_the_name_of_a_setting_or_option_is_refused():
    with pytest.raises(InputError, match="a choice called 'lr', which is the name of a setting"):
        make_plan(loads(lr=(float, 3.0)), METHODS["erm"], {})
    with pytest.raises(InputError, match="'k_max', which is the name of an option of spare"):
        make_plan(loads(k_max=(int, 3)), METHODS["spare"], {})
    make_plan(loads(k_max=(int, 3)), METHODS["erm"], {})


def test_a_choice_without_a_default_is_said():
    with pytest.raises(InputError, match=r"'noise' of the load of mine .* a type and a default"):
        make_plan(loads(noise=(float, inspect.Parameter.empty)), METHODS["erm"], {})
