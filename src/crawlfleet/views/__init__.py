"""Requests and answers of the API; an answer is made from its row."""
