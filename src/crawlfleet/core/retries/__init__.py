"""Circuit breakers for targets, and budgets of retries."""
