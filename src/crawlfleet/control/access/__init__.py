"""Keys, projects, clusters, join tokens and sign-ins: who may do what."""
