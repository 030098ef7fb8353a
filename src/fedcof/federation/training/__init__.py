"""Training over Flower: its messages, the client's side and the server's run."""
