"""The HTTP client of crawls: bounded, guarded, one outcome for whatever a site does.

Written by hand: aiohttp can be guarded, but costs 75 in place of 30 microseconds a page (ADR 0008),
and clients in Rust connect where the egress guard does not see the socket.
"""
