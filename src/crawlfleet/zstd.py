"""Zstandard: from the standard library where it has it, which is from Python 3.14 on."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import (
        CompressionParameter,
        DecompressionParameter,
        ZstdCompressor,
        ZstdDecompressor,
        ZstdError,
        ZstdFile,
        compress,
        decompress,
    )
else:
    from backports.zstd import (
        CompressionParameter,
        DecompressionParameter,
        ZstdCompressor,
        ZstdDecompressor,
        ZstdError,
        ZstdFile,
        compress,
        decompress,
    )

__all__ = (
    "CompressionParameter",
    "ZstdCompressor",
    "ZstdDecompressor",
    "ZstdError",
    "ZstdFile",
    "compress",
    "decompress",
    "web_decompressor",
)

WEB_WINDOW_LOG = 23
"""8 MB: what senders of web content must keep to."""


def web_decompressor() -> ZstdDecompressor:
    """A decompressor of one frame from strangers: one that asks for more memory is an error."""
    return ZstdDecompressor(options={DecompressionParameter.window_log_max: WEB_WINDOW_LOG})
