"""Secure aggregation: the server learns the sum over clients and nothing else of any of them."""
