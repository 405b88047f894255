"""Environments of bundles on a node: installed, compiled, prepared ahead."""
