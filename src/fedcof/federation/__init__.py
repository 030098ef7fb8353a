"""The methods over real clients, on Flower; the only importer of ``flwr``.

Nothing here is imported by ``import fedcof``. The components of a Flower app are
``fedcof.federation.server_app:app`` and ``fedcof.federation.client_app:app``; all else works
without Flower: what goes over the wire (`records`), what a SuperNode does with a question
(`answering`), what the server lets in (`admission`), keeps (`store`) and asks (`collecting`).
"""
