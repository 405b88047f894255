"""Example requests and answers of the API, by resource; the documents show them."""
