"""Pure decisions about the quality of what crawls find."""
