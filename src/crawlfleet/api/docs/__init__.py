"""The OpenAPI document and the page that shows it, made from the route table."""
