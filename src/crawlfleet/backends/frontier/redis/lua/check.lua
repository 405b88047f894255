-- Whether the books are still those that the caller knows.

return {digits(version)}
