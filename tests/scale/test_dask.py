"""The passes of a streamed solution on Dask, as docs/scale.md says."""

import pytest

pytest.importorskip("distributed")

from test_solving import federation, fragments

from fedcof.methods import get_method
from fedcof.scale import solve


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_head_from_two_workers_of_dask_is_that_of_one_process():
    from distributed import Client, LocalCluster

    method = get_method("fedcof")
    parts = fragments(federation(method), size=3)

    def engine(task, given):
        for future in client.map(task, list(given), pure=False):
            yield future.result()

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        head = solve(method, parts, engine=engine).head
    assert head.to_bytes() == solve(method, parts).head.to_bytes()
