"""Rules for bundles of user code: archives, requirements, names of spiders."""
