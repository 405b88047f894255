"""Reading of pages: items, links, structured data, within limits of time and memory."""
