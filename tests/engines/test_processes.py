"""Clustering across gloo processes: as in one, whoever has which examples."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import spare
from spare.errors import InputError
from spare.groups import kmeans, one_class
from tests.engines import workers
from tests.groups.test_kmeans import early_outputs


def two_classes(n):
    outputs = np.concatenate(
        [early_outputs(0, n, 4, 0.02, 5.0), early_outputs(1, n // 3, 4, 0.1, 5.0)]
    )
    labels = np.repeat([3, 8], [n, n // 3])
    order = np.random.default_rng(0).permutation(len(labels))
    return outputs[order].astype(np.float32), labels[order]


def whole(results, count, n):
    ids = np.empty(n, dtype=int)
    for rank, (of_rank, _, _) in enumerate(results):
        ids[rank::count] = of_rank
    return ids


@pytest.mark.parametrize("count", [2, 3])
def test_small_classes_are_clustered_exactly_as_in_one_process(count, tmp_path):
    outputs, labels = two_classes(600)
    results = workers.run(workers.clustered, count, tmp_path, outputs, labels, {})
    # Rows arrive in another order, which is all that differs.
    order = np.concatenate([np.arange(len(labels))[rank::count] for rank in range(count)])
    here = spare.infer_groups(outputs[order], labels[order])
    assert all(evidence == here.evidence for _, evidence, _ in results)
    assert (whole(results, count, len(labels))[order] == here.ids).all()
    assert all((others == results[0][2]).all() for _, _, others in results)


def test_large_classes_are_clustered_from_sums_as_in_one_process(tmp_path, monkeypatch):
    outputs, labels = two_classes(kmeans.MANY + 1000)
    outputs[:12] = [0, 0, 0, 1]
    labels[:12] = 3
    results = workers.run(workers.clustered, 3, tmp_path, outputs, labels, {"k_max": 3})
    here = spare.infer_groups(outputs, labels, k_max=3)
    ids = whole(results, 3, len(labels))
    assert adjusted_rand_score(ids, here.ids) > 0.999
    for _, evidence, _ in results:
        assert evidence == results[0][1]
        assert sum(sum(each.sizes) for each in evidence.values()) == len(labels)
        for label, each in evidence.items():
            assert each.sizes == here.evidence[label].sizes
            for k, score in each.scores.items():
                error = np.hypot(each.errors[k], here.evidence[label].errors[k])
                assert score == pytest.approx(here.evidence[label].scores[k], abs=5 * error + 1e-9)


def test_a_class_that_only_one_process_has_is_clustered_by_all(tmp_path):
    outputs, labels = two_classes(300)
    labels[1::2] = 3  # the second process has none of the other
    results = workers.run(workers.clustered, 2, tmp_path, outputs, labels, {"k": 2})
    assert set(results[1][1]) == {3, 8}
    assert results[0][1] == results[1][1]


def test_a_process_that_dies_ends_the_others_with_a_sentence(tmp_path):
    outputs, labels = two_classes(kmeans.MANY + 500)
    results = workers.of_survivors(workers.dies, 3, tmp_path, outputs, labels)
    assert set(results) == {0, 1}
    for said, seconds in results.values():
        assert said.startswith("another process of the job has ended or did not answer")
        assert "\n" not in said
        assert seconds < 60


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("width", "processes 0 and 1 were started with different values per example: 4 and 3"),
        ("options", "processes 0 and 1 were started with different options"),
        ("input", "process 1: 20 of 20 rows of outputs are NaN"),
        ("flat", "process 1: 20 of 20 rows of outputs are NaN"),
        ("empty", "process 1: outputs must have shape (examples, values); got (20, 0)"),
        ("power", "processes 0 and 1 were started with different options"),
    ],
)
def test_processes_that_do_not_fit_together_are_refused(what, says, tmp_path):
    results = workers.run(workers.different, 2, tmp_path, what)
    assert results[0] == results[1]
    assert results[0].startswith(f"InputError: {says}")


def test_without_a_job_there_is_one_sentence():
    with pytest.raises(InputError, match="torchrun"):
        spare.infer_groups([[0.0], [1.0]], [0, 0], engine="processes")
    with pytest.raises(InputError, match="unknown engine 'proceses': did you mean 'processes'"):
        spare.infer_groups([[0.0], [1.0]], [0, 0], engine="proceses")


def test_large_classes_take_the_path_that_is_tested_here():
    assert one_class.MANY == kmeans.MANY == 20_000
