"""Rules for pages: selectors, values, and the signs of error pages and walls."""
