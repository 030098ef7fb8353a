"""Rounds of secure aggregation in one process, for tests."""

import random

import numpy as np

from fedcof.privacy.secure.client import Client
from fedcof.privacy.secure.keys import Ed25519Directory, Ed25519Identity
from fedcof.privacy.secure.ring import RingLayout
from fedcof.privacy.secure.server import Server
from fedcof.privacy.secure.terms import Terms

RUN = bytes(range(16))
EXCHANGES = 5


class Federation:
    """Clients, their server and what each client adds, in one round."""

    def __init__(self, clients, *, size=3, terms=None, seed=0, round_number=1, bound=100):
        self.terms = terms or Terms()
        self.ids = [f"site-{number}" for number in range(clients)]
        draw = random.Random(seed).randbytes
        self.identities = {name: Ed25519Identity(random=draw) for name in self.ids}
        self.directory = Ed25519Directory(
            {name: identity.public_key for name, identity in self.identities.items()}
        )
        self.layout = RingLayout.of({"x": (size,)}, {"x": bound}, clients, integers=["x"])
        rng = np.random.default_rng(seed)
        self.numbers = {name: rng.integers(-bound, bound + 1, size) for name in self.ids}
        self.clients = {name: self.client(name, random=draw) for name in self.ids}
        self.server = Server(
            run=RUN,
            round_number=round_number,
            clients=self.ids,
            directory=self.directory,
            layout=self.layout,
            terms=self.terms,
        )

    def client(self, name, **settings):
        vector = self.layout.encode({"x": self.numbers[name]})
        made = {
            "client_id": name,
            "identity": self.identities[name],
            "directory": self.directory,
            "layout": self.layout,
            "vector": vector,
            "terms": self.terms,
        }
        return Client(**{**made, **settings})

    def exchange(self, gone=(), change=None):
        """Ask all clients but those who are gone; return the server's messages."""
        messages = self.server.advance()
        for name, message in messages.items():
            if name not in gone:
                answer = self.clients[name].answer(message)
                self.server.receive(name, change(name, answer) if change else answer)
        return messages

    def run(self, gone_in=None, changes=None):
        """Run all exchanges; return the sum. Clients go before they answer an exchange."""
        gone = set()
        for number in range(EXCHANGES):
            gone |= set((gone_in or {}).get(number, ()))
            self.exchange(gone, (changes or {}).get(number))
        assert self.server.advance() == {}
        return self.server.result()["x"]

    def sum_of(self, names):
        return np.sum([self.numbers[name] for name in names], axis=0)
