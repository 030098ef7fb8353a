"""A run folder, as a federation leaves it, in which something of every kind has happened."""

import numpy as np

from fedcof.federation.report import CollectionReport
from fedcof.federation.serving import REPORT, STORE
from fedcof.federation.status import STATUS, Status
from fedcof.federation.store import SummaryStore
from fedcof.methods import FedCOF
from fedcof.training import Round, save_history

HOSTILE = "<script>alert(1)</script>"


def write_run(folder, clients=5):
    rng = np.random.default_rng(0)
    report = CollectionReport(
        rounds=1,
        refused={HOSTILE: "too-large (at the client)"},
        missing={"west": "its SuperNode is offline"},
        nodes={4: "its clock is 1:00:00 ahead of the server"},
        wire_bytes=12345,
    )
    with SummaryStore(folder / STORE, {"method": "fedcof"}) as store:
        for i in range(clients):
            labels = rng.integers(3, size=20)
            features = (rng.normal(size=(20, 4)) + labels[:, None]).astype(np.float32)
            summary = FedCOF().summarize(features, labels, client_id=f"north {i}")
            store.add({f"north {i}": (summary, summary.to_bytes())})
            report.answered.add(f"north {i}")
    report.asked = report.answered | report.refused.keys() | report.missing.keys()
    report.influence = {"north 3": [0.75, 0.004], "north 1": [0.5, 0.0]}
    report.claimed = {"north 2": "SuperNode 9 may not answer for it: it has another key"}
    report.odd = {"north 0": "labels 2: as if its classes were permuted"}
    report.save(folder / REPORT)
    Status(
        state="incomplete",
        known=clients + 2,
        answered=clients,
        refused={"too-large": 1},
        missing={"its SuperNode is offline": 1},
        timeline=((0.0, 0), (3.0, 2), (9.0, clients)),
        nodes=4,
        online=3,
        classes={"0": clients, "1": clients, "2": clients},
    ).save(folder / STATUS)
    save_history(
        [
            Round(1, "training-free", 0.84, 1000, 1100, clients),
            Round(2, "training", 0.9, 2000, 2100, 2, loss=0.5, refused=(f"{HOSTILE}: NaN",)),
        ],
        folder / "history.json",
    )
