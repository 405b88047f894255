"""Rules for URLs: canonical form, scope, traps, robots.txt."""
