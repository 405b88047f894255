"""Access: keys, projects, clusters, join tokens and sign-ins."""
