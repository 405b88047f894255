"""What the API asks for and shows, each made from its row."""
